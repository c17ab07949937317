"""Makes a new generation of the store in a home, even if somebody else is making one just now: compact.py HOME"""

import sys
import time
from pathlib import Path

import jobq_json
from jobq.testing import make_context, make_settings

(PROVIDER,) = jobq_json.jobq_stores()
store = PROVIDER.make(make_settings(), make_context(Path(sys.argv[1])))
while not store.access.compact():
    time.sleep(0.01)
store.close()
