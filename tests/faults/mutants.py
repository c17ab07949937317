"""Faults that are planted in copies of jobq, each with the test that must find it; see test_mutants.py."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A planted fault.

    Attributes:
        what: is done no longer, or not as it should be.
        file: where.
        old: what stands there, once.
        new: what takes its place.
        test: what must fail then.
    """

    what: str
    file: str
    old: str
    new: str
    test: str


POWER = "tests/faults/test_storage_powerloss.py::test_nothing_is_lost_that_was_acknowledged"
MEMORY = "tests/contract/test_memory.py::TestMemoryStore::"
CONTRACT = "tests/contract/test_json.py::TestJsonStore::"
UNIT = "tests/unit/"
JSON = "tests/unit/json/"

MUTANTS = [
    Mutant(
        "the sync of a directory",
        "jobq/files.py",
        "        os.fsync(descriptor)\n",
        "        pass\n",
        POWER,
    ),
    Mutant(
        "links are not followed",
        "jobq/files.py",
        "flags | os.O_NOFOLLOW | os.O_CLOEXEC",
        "flags | os.O_CLOEXEC",
        UNIT + "test_files.py::test_what_is_no_regular_file_is_refused_at_once",
    ),
    Mutant(
        "the owner of a file",
        "jobq/files.py",
        "    if facts.st_uid != os.geteuid():\n",
        "    if False:\n",
        UNIT + "test_files.py::test_what_belongs_to_somebody_else_is_refused",
    ),
    Mutant(
        "only regular files",
        "jobq/files.py",
        "        if not stat.S_ISREG(facts.st_mode):\n",
        "        if False:\n",
        UNIT + "test_files.py::test_what_is_no_regular_file_is_refused_at_once",
    ),
    Mutant(
        "a FIFO holds nobody up",
        "jobq/files.py",
        " | os.O_NONBLOCK, 0o600",
        ", 0o600",
        UNIT + "test_files.py::test_what_is_no_regular_file_is_refused_at_once",
    ),
    Mutant(
        "the mode of a directory",
        "jobq/files.py",
        "    if facts.st_mode & 0o077:\n",
        "    if False:\n",
        UNIT + "test_files.py::test_a_directory_open_to_others_is_refused_with_the_way_out",
    ),
    Mutant(
        "a replacement is synced before it is renamed",
        "jobq/files.py",
        "                if durable:\n                    sync(descriptor)\n",
        "",
        UNIT + "test_files.py::test_a_durable_replacement_is_synced_before_and_after_the_rename",
    ),
    Mutant(
        "the run of an end",
        "jobq/store.py",
        "            and stored.run == self.job.run\n",
        "",
        CONTRACT + "test_a_stale_end_is_refused_and_changes_nothing",
    ),
    Mutant(
        "the worker of an end",
        "jobq/store.py",
        "            and stored.worker == self.worker\n",
        "",
        CONTRACT + "test_an_end_by_another_worker_is_refused",
    ),
    Mutant(
        "the state at an end",
        "jobq/store.py",
        "            stored.state is State.PROCESSING\n            and stored.worker",
        "            stored.worker",
        UNIT + "test_store.py::test_a_claim_holds_while_its_job_runs_with_that_worker_in_that_run",
    ),
    Mutant(
        "an id that was given to another job",
        "jobq/store.py",
        "            and stored.created_at == self.job.created_at",
        "            and True",
        CONTRACT + "test_an_id_that_was_added_anew_is_another_job",
    ),
    Mutant(
        "a job with losses runs alone",
        "jobq/store.py",
        "    return job.losses >= ALONE_LOSSES\n",
        "    return False\n",
        MEMORY + "test_a_job_with_many_losses_is_claimed_alone_and_only_when_first",
    ),
    Mutant(
        "each claim is another run",
        "jobq/lifecycle.py",
        '"run": job.run + 1,',
        '"run": job.run,',
        UNIT + "test_lifecycle.py::test_a_claim_begins_a_run",
    ),
    Mutant(
        "the last attempt is the last",
        "jobq/lifecycle.py",
        "if attempts < job.max_attempts and",
        "if attempts <= job.max_attempts and",
        UNIT + "test_lifecycle.py::test_the_last_attempt_makes_it_dead_without_asking_the_backoff",
    ),
    Mutant(
        "what is permanent",
        "jobq/lifecycle.py",
        "    if outcome.permanent or outcome.kind",
        "    if outcome.kind",
        UNIT + "test_lifecycle.py::test_what_is_permanent_is_not_tried_again",
    ),
    Mutant(
        "what cannot start",
        "jobq/lifecycle.py",
        " or outcome.kind is Kind.CANNOT_START or",
        " or",
        UNIT + "test_lifecycle.py::test_cannot_start_is_permanent_whatever_is_to_be_retried",
    ),
    Mutant(
        "a wait is waited",
        "jobq/lifecycle.py",
        '"run_at": ceil_ms(now + wait),',
        '"run_at": ceil_ms(now),',
        UNIT + "test_lifecycle.py::test_a_failure_waits_for_the_backoff",
    ),
    Mutant(
        "an outcome ends the row of losses",
        "jobq/lifecycle.py",
        '        "losses": 0,\n',
        "",
        UNIT + "test_lifecycle.py::test_any_outcome_ends_the_row_of_losses",
    ),
    Mutant(
        "a loss is counted",
        "jobq/lifecycle.py",
        "    losses = job.losses + counted\n",
        "    losses = job.losses\n",
        UNIT + "test_lifecycle.py::test_a_loss_is_not_the_jobs_failure",
    ),
    Mutant(
        "a loss is no attempt",
        "jobq/lifecycle.py",
        ' | {"losses": losses}\n',
        ' | {"losses": losses, "attempts": job.attempts + 1}\n',
        UNIT + "test_lifecycle.py::test_a_loss_is_not_the_jobs_failure",
    ),
    Mutant(
        "the last loss is the last",
        "jobq/lifecycle.py",
        "    elif counted and losses >= max_losses:\n",
        "    elif counted and losses > max_losses:\n",
        UNIT + "test_lifecycle.py::test_losses_in_a_row_are_contained",
    ),
    Mutant(
        "what must not run twice",
        "jobq/lifecycle.py",
        '    if job.on_lost == "dead":\n',
        "    if False:\n",
        UNIT + "test_lifecycle.py::test_a_job_that_must_not_run_twice_is_dead_when_lost",
    ),
    Mutant(
        "a run that had not begun",
        "jobq/lifecycle.py",
        '"the worker was gone before it began", now))\n',
        '"", now)) and lost(claim, now=now, counted=True, max_losses=3)\n',
        UNIT + "test_lifecycle.py::test_a_run_that_had_not_begun_counts_for_nothing_when_lost",
    ),
    Mutant(
        "a success stands",
        "jobq/lifecycle.py",
        ' or change.fields["state"] is State.COMPLETED:\n',
        ":\n",
        UNIT + "test_lifecycle.py::test_a_success_stands_against_a_cancel",
    ),
    Mutant(
        "a cancel that was asked for",
        "jobq/lifecycle.py",
        "    if stored.cancel_requested_at is None or change",
        "    if True or change",
        UNIT + "test_lifecycle.py::test_everything_else_is_cancelled_where_that_was_asked",
    ),
    Mutant(
        "a release counts nothing",
        "jobq/lifecycle.py",
        "    if outcome.delay is not None:\n",
        '    fields["attempts"] = claim.job.attempts + 1\n    if outcome.delay is not None:\n',
        UNIT + "test_lifecycle.py::test_a_release_counts_nothing",
    ),
    Mutant(
        "a retry begins anew",
        "jobq/lifecycle.py",
        '"run_at": now, "attempts": 0, "losses": 0, "finished_at"',
        '"run_at": now, "finished_at"',
        UNIT + "test_lifecycle.py::test_a_retry_of_an_ended_job_begins_anew",
    ),
    Mutant(
        "no running job is deleted",
        "jobq/lifecycle.py",
        '    if job.state is State.PROCESSING:\n        raise WrongState(job.id, job.state, "delete"',
        '    if False:\n        raise WrongState(job.id, job.state, "delete"',
        UNIT + "test_lifecycle.py::test_all_but_running_jobs_can_be_deleted",
    ),
    Mutant(
        "the identity of who is signalled",
        "jobq/processes.py",
        "        if now is None or now.dead or now.start_time != target.start_time:\n            return False\n",
        "        if now is None or now.dead:\n            return False\n",
        UNIT + "test_processes.py::test_a_pid_that_was_given_to_another_is_not_hit",
    ),
    Mutant(
        "who recovers spares itself",
        "jobq/processes.py",
        "    spared = ancestors(os.getpid())\n",
        "    spared = set()\n",
        UNIT + "test_processes.py::test_a_process_and_its_ancestors_are_not_among_its_own_carriers",
    ),
    Mutant(
        "what is short is not nothing",
        "jobq/processes.py",
        "    if error.errno in _SHORTAGES:\n",
        "    if False:\n",
        UNIT + "test_processes.py::test_out_of_descriptors_is_not_taken_for_nothing_there",
    ),
    Mutant(
        "who holds no lock is gone",
        "jobq/presence.py",
        '    return _held(directory / f"{worker_id}.lock")\n',
        "    return True\n",
        UNIT + "test_presence.py::test_who_dies_is_seen_as_dead_until_forgotten",
    ),
    Mutant(
        "who holds a lock is there",
        "jobq/presence.py",
        "    except BlockingIOError:\n        return True\n",
        "    except BlockingIOError:\n        return False\n",
        UNIT + "test_presence.py::test_members_are_seen_with_what_they_tell",
    ),
    Mutant(
        "observers share the lock",
        "jobq/presence.py",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        UNIT + "test_presence.py::test_observers_do_not_take_one_another_for_the_owner",
    ),
    Mutant(
        "a held jobs lock",
        "jobq/presence.py",
        "    while _held(lock):\n",
        "    while False:\n",
        UNIT + "test_presence.py::test_a_lock_that_stays_held_by_what_cannot_be_found_is_told",
    ),
    Mutant(
        "where processes cannot be seen",
        "jobq/presence.py",
        "    if not processes.visible():\n        if _held(lock):\n",
        "    if not processes.visible():\n        if False:\n",
        UNIT + "test_presence.py::test_where_processes_cannot_be_seen_a_held_lock_decides",
    ),
    Mutant(
        "the boot of a worker",
        "jobq/presence.py",
        "    if worker.boot_id != processes.boot_id():\n",
        "    if False:\n",
        UNIT + "test_presence.py::test_a_worker_of_another_machine_cannot_be_recovered_here",
    ),
    Mutant(
        "a copy of a home",
        "jobq/presence.py",
        '            if record["lock"] == _identity(os.lstat(directory / f"{worker_id}.lock")):\n',
        "            if True:\n",
        UNIT + "test_presence.py::test_in_a_copy_of_a_home_nothing_of_the_original_is_recovered",
    ),
    Mutant(
        "a forked copy is no worker",
        "jobq/presence.py",
        "os.register_at_fork(after_in_child=_after_fork)\n",
        "",
        UNIT + "test_presence.py::test_a_forked_copy_does_not_keep_a_dead_worker_alive",
    ),
    Mutant(
        "who joins just now",
        "jobq/presence.py",
        "        if info is None and (alive or",
        "        if False and (alive or",
        UNIT + "test_presence.py::test_who_joins_or_leaves_just_now_is_not_seen",
    ),
    Mutant(
        "a note is of one job",
        "jobq/started.py",
        'return f"{job.run} {format_time(job.created_at)} {job.id}".encode()',
        'return f"{job.run} {job.id}".encode()',
        UNIT + "test_started.py::test_a_run_of_another_job_that_had_the_same_id_is_another_run",
    ),
    Mutant(
        "what lives keeps its jobs",
        "jobq/recovery.py",
        "            if recovered is not None and recovered.clean:\n",
        "            if recovered is not None:\n",
        UNIT + "test_worker.py::test_while_something_of_a_dead_worker_may_live_its_job_is_not_run_again",
    ),
    Mutant(
        "a death is counted",
        "jobq/recovery.py",
        '        counted = told and not worker.state.startswith("draining")\n',
        "        counted = False\n",
        UNIT + "test_worker.py::test_three_losses_make_a_job_dead_with_the_reason_and_its_neighbours_complete",
    ),
    Mutant(
        "a reboot is not counted",
        "jobq/recovery.py",
        " and worker.boot_id == self._boot\n",
        "\n",
        UNIT + "test_worker.py::test_a_reboot_and_a_death_while_draining_count_nothing",
    ),
    Mutant(
        "a death while draining is not counted",
        "jobq/recovery.py",
        '        counted = told and not worker.state.startswith("draining")\n',
        "        counted = told\n",
        UNIT + "test_worker.py::test_a_reboot_and_a_death_while_draining_count_nothing",
    ),
    Mutant(
        "a cancel of what was lost",
        "jobq/recovery.py",
        "            change = lifecycle.settled(claim.job, change)\n",
        "",
        UNIT + "test_worker.py::test_a_lost_run_whose_cancel_was_asked_for_is_cancelled",
    ),
    Mutant(
        "a worker recovers itself never",
        "jobq/recovery.py",
        "            if worker.id == self._own:\n",
        "            if False:\n",
        UNIT + "test_worker.py::test_a_worker_never_recovers_itself",
    ),
    Mutant(
        "what had not begun is no loss",
        "jobq/recovery.py",
        "started is not None and not started.has(claim.job):\n",
        "False:\n",
        UNIT + "test_recovery.py::test_of_handlers_only_what_had_begun_is_a_loss",
    ),
    Mutant(
        "nobody is forgotten who holds something",
        "jobq/recovery.py",
        "        if given_back == len(claims):\n",
        "        if True:\n",
        UNIT + "test_recovery.py::test_who_is_slower_changes_nothing_and_forgets_nobody",
    ),
    Mutant(
        "whoever was faster",
        "jobq/recovery.py",
        "            except (Conflict, JobNotFound):",
        "            except ZeroDivisionError:",
        UNIT + "test_recovery.py::test_who_is_slower_changes_nothing_and_forgets_nobody",
    ),
    Mutant(
        "nothing joins a job that runs alone",
        "jobq/claiming.py",
        "            alone=False if attempts else None,\n",
        "            alone=None,\n",
        UNIT + "test_claiming.py::test_what_must_run_alone_is_wanted_only_by_a_worker_that_runs_nothing",
    ),
    Mutant(
        "nothing is overtaken",
        "jobq/claiming.py",
        "        self._next = job\n        return False\n",
        "        self._next = job\n        return True\n",
        UNIT + "test_ahead.py::test_nothing_is_overtaken_that_may_not_go_ahead",
    ),
    Mutant(
        "the sync of the journal",
        "plugins/jobq_json/journal.py",
        "        files.sync(self._fd)\n",
        "        pass\n",
        POWER,
    ),
    Mutant(
        "the cut of a torn tail",
        "plugins/jobq_json/journal.py",
        "            os.ftruncate(self._fd, end)\n        for damaged",
        "            pass\n        for damaged",
        JSON + "test_journal.py::test_what_stands_behind_the_last_line_is_cut_by_the_next_writer",
    ),
    Mutant(
        "a whole record without its line feed",
        "plugins/jobq_json/journal.py",
        "        if torn and sound(torn):\n",
        "        if False:\n",
        JSON + "test_faults.py::test_a_record_without_its_line_feed_is_carried_over",
    ),
    Mutant(
        "no reader believes what has no line feed",
        "plugins/jobq_json/journal.py",
        "        if start == 0:\n            check_header",
        (
            "        if left and start:\n"
            "            yield left, start + len(left)\n"
            "        if start == 0:\n"
            "            check_header"
        ),
        JSON + "test_journal.py::test_a_reader_does_not_believe_a_record_that_is_cut_off_again",
    ),
    Mutant(
        "the end before a failed write",
        "plugins/jobq_json/journal.py",
        "            os.ftruncate(self._fd, end)\n            raise",
        "            raise",
        JSON + "test_faults.py::test_a_full_disk_leaves_the_state_before",
    ),
    Mutant(
        "short writes are completed",
        "plugins/jobq_json/journal.py",
        "            if written < len(data):\n",
        "            if False:\n",
        JSON + "test_faults.py::test_short_writes_are_completed",
    ),
    Mutant(
        "numbers are given once",
        "plugins/jobq_json/journal.py",
        "                self.seq += damaged * _SKIP\n",
        "",
        JSON + "test_journal.py::test_a_damaged_last_record_gives_no_number_away_twice",
    ),
    Mutant(
        "the checksum of a line",
        "plugins/jobq_json/lines.py",
        '    return line[-SUFFIX:] == b\',"crc":"%08x"}\' % crc32(memoryview(line)[:-SUFFIX])\n',
        '    return line[-SUFFIX:].startswith(b\',"crc":"\')\n',
        JSON + "test_lines.py::test_every_flipped_byte_is_noticed",
    ),
    Mutant(
        "the checksum where a line is parsed",
        "plugins/jobq_json/lines.py",
        "    if not checked and not sound(line):\n",
        "    if False:\n",
        JSON + "test_lines.py::test_every_flipped_byte_is_noticed",
    ),
    Mutant(
        "the checksum where a line is placed",
        "plugins/jobq_json/kept.py",
        "    head = head_of(line) if checked or sound(line) else None\n",
        "    head = head_of(line)\n",
        JSON + "test_journal.py::test_every_flipped_byte_is_noticed_and_nothing_false_is_shown",
    ),
    Mutant(
        "the checksum of the manifest",
        "plugins/jobq_json/manifest.py",
        '    if not comma or tail != b\'  "crc": "%08x"\\n}\\n\' % crc32(body):\n',
        "    if not comma:\n",
        JSON + "test_manifest.py::test_every_flipped_byte_is_an_error",
    ),
    Mutant(
        "a newer format",
        "plugins/jobq_json/manifest.py",
        '    if record["format"] > FORMAT:\n',
        "    if False:\n",
        JSON + "test_manifest.py::test_a_newer_format_is_refused_as_such",
    ),
    Mutant(
        "the sync of the sorted run",
        "plugins/jobq_json/filewriter.py",
        "            if sync:\n",
        '            if sync and not self._path.name.startswith("jobs-"):\n',
        POWER,
    ),
    Mutant(
        "the sync of the archive",
        "plugins/jobq_json/filewriter.py",
        "            if sync:\n",
        '            if sync and not self._path.name.startswith("done-"):\n',
        POWER,
    ),
    Mutant(
        "the sync of the manifest",
        "plugins/jobq_json/directory.py",
        "            files.sync(descriptor)\n",
        "            if NAME not in name:\n                files.sync(descriptor)\n",
        POWER,
    ),
    Mutant(
        "the writers' lock",
        "plugins/jobq_json/locking.py",
        "fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        CONTRACT + "test_processes_at_once_claim_every_job_once",
    ),
    Mutant(
        "a lock that was removed",
        "plugins/jobq_json/locking.py",
        "        while not self._is_current():",
        "        while False:",
        JSON + "test_directory.py::test_a_lock_that_was_removed_is_not_held_beside_the_one_of_others",
    ),
    Mutant(
        "data without a manifest",
        "plugins/jobq_json/directory.py",
        "            self._refuse_orphans()\n",
        "",
        JSON + "test_directory.py::test_data_without_a_manifest_is_no_empty_queue",
    ),
    Mutant(
        "a store that was removed",
        "plugins/jobq_json/directory.py",
        "            if self.is_lost():\n",
        "            if False:\n",
        JSON + "test_directory.py::test_a_store_that_was_removed_is_no_empty_queue_until_it_is_begun_anew",
    ),
    Mutant(
        "a store that was exchanged",
        "plugins/jobq_json/directory.py",
        "            if ahead < 0 or (ahead == 0 and facts.st_ino != self._version[0]):\n",
        "            if False:\n",
        JSON + "test_directory.py::test_a_handle_writes_to_no_store_that_was_exchanged_for_another",
    ),
    Mutant(
        "what is in force is not swept",
        "plugins/jobq_json/directory.py",
        "            if name not in kept:\n",
        "            if True:\n",
        JSON + "test_generations.py::test_files_of_no_generation_are_swept",
    ),
    Mutant(
        "a view that ran ahead",
        "plugins/jobq_json/access.py",
        (
            "        except BaseException:\n"
            "            if self._generation is not None:\n"
            "                self._generation.drop_view()\n"
            "            raise\n"
        ),
        "        except ZeroDivisionError:\n            raise\n",
        JSON + "test_faults.py::test_a_claim_that_cannot_be_written_was_not_made",
    ),
    Mutant(
        "a failed sync",
        "plugins/jobq_json/access.py",
        "            except OSError:\n                self._distrusted = generation.manifest.generation\n",
        "            except OSError:\n",
        JSON + "test_faults.py::test_a_journal_whose_sync_failed_is_not_written_to_again",
    ),
    Mutant(
        "a fork",
        "plugins/jobq_json/access.py",
        "        if self._pid != os.getpid():\n",
        "        if False:\n",
        JSON + "test_handles.py::test_a_forked_handle_does_not_share_the_lock_of_its_parent",
    ),
    Mutant(
        "the bell",
        "plugins/jobq_json/access.py",
        "        if ring:\n            self.directory.ring()\n",
        "",
        JSON + "test_watch.py::test_what_makes_a_job_claimable_wakes",
    ),
    Mutant(
        "what was changed before the lock",
        "plugins/jobq_json/access.py",
        (
            "            if view is before:\n"
            "                unchanged = {job_id: found[job_id] for job_id in ids "
            "if job_id not in view.delta and job_id in found}\n"
        ),
        "            if view is before:\n                unchanged = found\n",
        JSON + "test_handles.py::test_what_was_changed_before_the_lock_is_not_changed_by_an_old_copy",
    ),
    Mutant(
        "what was moved before the lock",
        "plugins/jobq_json/access.py",
        "            if view is before:\n                unchanged",
        "            if found:\n                unchanged",
        JSON + "test_handles.py::test_what_was_moved_before_the_lock_is_found_again",
    ),
    Mutant(
        "a journal that became shorter",
        "plugins/jobq_json/generation.py",
        "        if view is None or end < view.position:\n",
        "        if view is None:\n",
        JSON + "test_journal.py::test_a_journal_that_became_shorter_is_read_anew",
    ),
    Mutant(
        "the version at a change",
        "plugins/jobq_json/store.py",
        "            if kept.job.version != before.version:\n",
        "            if False:\n",
        CONTRACT + "test_only_the_latest_rev_is_changed",
    ),
    Mutant(
        "the version at a delete",
        "plugins/jobq_json/store.py",
        "                if kept.job.version == versions[kept.id] and kept.state",
        "                if kept.state",
        CONTRACT + "test_deleted_is_what_is_unchanged_and_not_running",
    ),
    Mutant(
        "no running job is deleted from the store",
        "plugins/jobq_json/store.py",
        "versions[kept.id] and kept.state != State.PROCESSING\n",
        "versions[kept.id]\n",
        CONTRACT + "test_deleted_is_what_is_unchanged_and_not_running",
    ),
    Mutant(
        "a batch is added whole or not at all",
        "plugins/jobq_json/store.py",
        (
            "            if taken:\n"
            "                raise DuplicateJob(dict.fromkeys(item.job.id for item in new if item.job.id in taken))\n"
            "            journal = generation.journal\n"
        ),
        (
            "            free = [item for item in new if item.job.id not in taken]\n"
            "            journal = generation.journal\n"
            "            if taken and free:\n"
            "                journal.append(adding.record_of(free, journal.seq), next_seq=journal.seq + len(free))\n"
            "            if taken:\n"
            "                raise DuplicateJob(dict.fromkeys(item.job.id for item in new if item.job.id in taken))\n"
        ),
        CONTRACT + "test_every_taken_or_repeated_id_is_named_and_nothing_added",
    ),
    Mutant(
        "a batch that repeats an id",
        "plugins/jobq_json/store.py",
        "        taken = set(adding.repeated(new))\n",
        "        taken: set[str] = set()\n",
        CONTRACT + "test_every_taken_or_repeated_id_is_named_and_nothing_added",
    ),
    Mutant(
        "what is pruned is as it was seen",
        "plugins/jobq_json/store.py",
        "if view is seen and view.is_current(found[0])]",
        "]",
        JSON + "test_pruning.py::test_two_who_prune_at_once_delete_each_job_once",
    ),
    Mutant(
        "an end that was not acknowledged",
        "plugins/jobq_json/store.py",
        "self._unsure = {key: key in cancelled for key in _runs(item.claim for item in ended) - refused}",
        "self._unsure = {}",
        JSON + "test_faults.py::test_an_end_that_could_not_be_acknowledged_is_no_news_the_second_time",
    ),
    Mutant(
        "ids in the archive",
        "plugins/jobq_json/adding.py",
        "        for segment in self._manifest.archive:\n",
        "        for segment in ():\n",
        JSON + "test_adding.py::test_a_taken_id_is_found_wherever_its_job_is",
    ),
    Mutant(
        "ids in the sorted run",
        "plugins/jobq_json/adding.py",
        "        yield run.data, run.first, self._manifest.end_of_jobs(run.first)\n",
        "",
        JSON + "test_adding.py::test_a_taken_id_is_found_wherever_its_job_is",
    ),
    Mutant(
        "ids in the journal",
        "plugins/jobq_json/adding.py",
        " | self._in_journal(ids)\n",
        "\n",
        JSON + "test_adding.py::test_a_taken_id_is_found_wherever_its_job_is",
    ),
    Mutant(
        "ids among the hashes",
        "plugins/jobq_json/taken.py",
        "        return at < len(self) and self[at] == wanted\n",
        "        return False\n",
        JSON + "test_adding.py::test_a_taken_id_is_found_wherever_its_job_is",
    ),
    Mutant(
        "an end is fenced",
        "plugins/jobq_json/transactions.py",
        "        if kept is None or not item.claim.holds(kept.job):\n",
        "        if kept is None:\n",
        CONTRACT + "test_a_stale_end_is_refused_and_changes_nothing",
    ),
    Mutant(
        "a cancel that was asked for before an end was recorded",
        "plugins/jobq_json/transactions.py",
        "        if kept.job.cancel_requested_at is not None:\n",
        "        if False:\n",
        CONTRACT + "test_a_cancel_asked_for_is_seen_by_the_holder_and_settled",
    ),
    Mutant(
        "paused queues",
        "plugins/jobq_json/lanes.py",
        "                lane.queue not in paused\n                and (wanted.queues",
        "                (wanted.queues",
        CONTRACT + "test_a_paused_queue_is_not_claimed_from",
    ),
    Mutant(
        "only what is due",
        "plugins/jobq_json/lanes.py",
        "                if (kept := queue.peek()) is not None and kept.run_at <= now\n",
        "                if (kept := queue.peek()) is not None\n",
        CONTRACT + "test_only_what_is_due_is_claimed",
    ),
    Mutant(
        "high priority first",
        "plugins/jobq_json/lanes.py",
        "        for priority in self._priorities if limit > 0 else ():\n",
        "        for priority in reversed(self._priorities) if limit > 0 else ():\n",
        CONTRACT + "test_the_order_is_priority_then_due_time_then_sequence",
    ),
    Mutant(
        "what waits no longer",
        "plugins/jobq_json/lanes.py",
        "            if self._head is not None and self._head.id not in delta:\n",
        "            if self._head is not None:\n",
        JSON + "test_handles.py::test_what_somebody_else_has_claimed_is_claimed_by_nobody_else",
    ),
    Mutant(
        "whoever runs alone",
        "plugins/jobq_json/lanes.py",
        "                if queue.lane.alone:\n                    limit = 1\n",
        "",
        CONTRACT + "test_a_job_with_many_losses_is_claimed_alone_and_only_when_first",
    ),
    Mutant(
        "a hint is checked by the id",
        "plugins/jobq_json/view.py",
        "        if hinted is not None and hinted.id == job_id:\n",
        "        if hinted is not None:\n",
        JSON + "test_handles.py::test_the_place_in_a_record_is_a_hint",
    ),
    Mutant(
        "a change of an unknown kind",
        "plugins/jobq_json/replay.py",
        '            raise NewerFormat(f"{view.journal.path}',
        '            str(f"{view.journal.path}',
        JSON + "test_generations.py::test_a_change_of_an_unknown_kind_is_of_a_newer_jobq",
    ),
    Mutant(
        "one compacts at a time",
        "plugins/jobq_json/compaction.py",
        "        yield lock_descriptor(descriptor, blocking=False)\n",
        "        yield True\n",
        JSON + "test_generations.py::test_only_one_compacts_and_nobody_waits",
    ),
    Mutant(
        "what was written meanwhile",
        "plugins/jobq_json/compaction.py",
        "        if self._carry_over() or not self._synced:\n",
        "        if not self._synced:\n",
        JSON + "test_generations.py::test_what_is_written_during_a_compaction_is_carried_over",
    ),
    Mutant(
        "the sync of the new journal",
        "plugins/jobq_json/compaction.py",
        "            files.sync(self._journal_fd)\n",
        "            pass\n",
        POWER,
    ),
    Mutant(
        "a generation that was published meanwhile",
        "plugins/jobq_json/compaction.py",
        "                if latest.generation != view.manifest.generation:\n",
        "                if False:\n",
        JSON + "test_faults.py::test_a_generation_published_right_before_a_compaction_stands",
    ),
    Mutant(
        "places in the new generation",
        "plugins/jobq_json/compaction.py",
        "                change[index] = self._moved(change[0], change[index])\n",
        "                pass\n",
        JSON + "test_generations.py::test_what_is_written_during_a_compaction_is_carried_over",
    ),
    Mutant(
        "damaged lines are kept",
        "plugins/jobq_json/compaction.py",
        "        if view.damaged_lines:\n            name",
        "        if False:\n            name",
        JSON + "test_generations.py::test_damaged_records_are_set_aside_and_counted",
    ),
    Mutant(
        "what was changed is left out",
        "plugins/jobq_json/writing.py",
        "            left_out = self._touched[bisect_left(self._touched, position) : "
        "bisect_left(self._touched, end)]\n",
        "            left_out: list[int] = []\n",
        JSON + "test_handles.py::test_a_compaction_puts_each_job_into_its_place_once",
    ),
    Mutant(
        "the order of the run",
        "plugins/jobq_json/writing.py",
        "        changed.sort(key=lambda kept: (kept.run_at, kept.seq))\n",
        "",
        JSON + "test_handles.py::test_a_compaction_puts_each_job_into_its_place_once",
    ),
    Mutant(
        "what was deleted is left out",
        "plugins/jobq_json/archiving.py",
        "            if not gone.get(name) and not copy:\n",
        "            if not copy:\n",
        JSON + "test_generations.py::test_a_segment_is_written_again_without_what_was_deleted_or_retried",
    ),
    Mutant(
        "what stands behind a segment",
        "plugins/jobq_json/archiving.py",
        "            os.ftruncate(descriptor, last.size)\n",
        "",
        JSON + "test_generations.py::test_what_stands_behind_the_size_of_a_segment_is_no_data",
    ),
    Mutant(
        "only what is old",
        "plugins/jobq_json/pruning.py",
        "            elif kept.state in states and kept.job.updated_at < before:\n",
        "            elif kept.state in states:\n",
        JSON + "test_pruning.py::test_a_clock_that_was_ahead_for_a_while_keeps_nothing_else",
    ),
]
