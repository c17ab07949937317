"""The names of what is exported: OpenTelemetry's semantic conventions for messaging, and jobq's own.

https://opentelemetry.io/docs/specs/semconv/messaging/ has the former. They are written out here, since the package
that holds them calls its module of them unstable.
"""

from __future__ import annotations

SCOPE = "jobq"
"""The instrumentation scope of all that this plugin exports."""

SYSTEM = "messaging.system"
DESTINATION = "messaging.destination.name"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
MESSAGE_ID = "messaging.message.id"
CLIENT_ID = "messaging.client.id"
ERROR_TYPE = "error.type"
EXIT_CODE = "process.exit.code"
PROCESS_DURATION = "messaging.process.duration"

HANDLER = "jobq.job.handler"
RUN = "jobq.job.run"
ATTEMPT = "jobq.job.attempt"
OUTCOME = "jobq.outcome"
EVENT = "jobq.event"
STATE = "jobq.job.state"

EVENTS = "jobq.events"
WAIT = "jobq.job.wait"
JOBS = "jobq.jobs"
OLDEST = "jobq.queue.oldest_wait"

COMMAND = "command"
"""What stands for the handler of a job that has none: what is exported never has a command line in it."""

OTHER = "_OTHER"
"""What stands for a queue or handler beyond the most that are told apart, as the conventions have it of errors."""
