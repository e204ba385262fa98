"""Every place where a file, or text of one, is parsed, and why that is safe.

`test_outside_files` fails for a place that is not listed here, so whoever adds a reader decides where it runs.

An outside file is every file that the command did not write itself in this study. It is parsed in the separate process
(`guidebench.harness.reader_process`), which the corpus of `test_outside_files` shows for each reader that
can be called alone.
"""

APART = "in the separate process"
LOADER = "a library's own loader, after `outside_files.check` or `gguf_files.header` in the separate process"
WRITTEN_BY_US = "what this command, or its worker, wrote in this study, or a cache or setting of this user"
FOLLOWED = (
    "records of a study: parsed in place by the `bench run` that writes it, in the separate process by commands that "
    "follow it (`FOLLOWERS`)"
)
TEXT = "no file: a message between our processes, an answer of a server, or one text of a row or a call"
CHECKED = "one answer of a file, which the same function has read in the separate process before"
PACKAGE = "a file of this package"
CASSETTE = (
    "a cassette of this study, or another after each of its rows was checked in the separate process: when it is "
    "imported, when `models.cassette` names it (`named_cassettes`), or when `bench eval` reads it"
)
BOUNDED = "at most 4,096 bytes of a regular file: each field is checked, and no other is used (`test_leases`)"
CLAIMS = "at most a megabyte of JSON, within a strict schema; of another study in the separate process"
ARCHIVE = "an archive that is being written"

READERS: dict[str, str] = {
    "baselines/commands/label:_each_row": APART,
    "baselines/datasets/minari/reading:Reader._opened": APART,
    "baselines/datasets/minari/reading:Reader._scaling": APART,
    "baselines/datasets/minari/writing:write": ARCHIVE,
    "baselines/storage:_open": WRITTEN_BY_US,
    "baselines/teachers/human/files:answers": FOLLOWED,
    "baselines/teachers/human/files:pose": TEXT,
    "harness/claims:parsed": CLAIMS,
    "harness/episodes/files:read": WRITTEN_BY_US,
    "harness/extras:_origin": PACKAGE,
    "harness/fork_server:_Server._answer": TEXT,
    "harness/gym/recorder:Recorder.__init__": WRITTEN_BY_US,
    "harness/identity/cells:write_cell": WRITTEN_BY_US,
    "harness/identity/digests:Memory._load": WRITTEN_BY_US,
    "harness/identity/sources:_load": WRITTEN_BY_US,
    "harness/launchers/job_files:event": TEXT,
    "harness/launchers/ray_:Ray.ask": TEXT,
    "harness/launchers/ray_:Tasks.queued": WRITTEN_BY_US,
    "harness/launchers/ray_driver:main": TEXT,
    "harness/loop/checkpoints:load": WRITTEN_BY_US,
    "harness/loop/job:Job.loads": TEXT,
    "harness/models/answer_files:_answer_set": APART,
    "harness/models/answer_files:_array": CHECKED,
    "harness/models/answer_files:read": APART,
    "harness/models/answer_files:value_of": CHECKED,
    "harness/models/answer_records:split": CHECKED,
    "harness/models/backends/diffusers_/loading:load": LOADER,
    "harness/models/backends/gguf_files:_header": APART,
    "harness/models/backends/images:pixels": CASSETTE,
    "harness/models/backends/network_size:_built": APART,
    "harness/models/backends/openai_/server:Server._parse_json": TEXT,
    "harness/models/backends/placebo:PlaceboModels.answer_question": TEXT,
    "harness/models/backends/recipes:parse": PACKAGE,
    "harness/models/backends/transformers_/embedding:_file": APART,
    "harness/models/backends/transformers_/loading:_gguf": LOADER,
    "harness/models/backends/transformers_/loading:_processor": LOADER,
    "harness/models/backends/transformers_/loading:load": LOADER,
    "harness/models/backends/transformers_/segmenting:load": LOADER,
    "harness/models/backends/transformers_/single_files:read": LOADER,
    "harness/models/budget:_parse_account": WRITTEN_BY_US,
    "harness/models/calls/arrays:shape_of": TEXT,
    "harness/models/cassette:Cassette._find": CASSETTE,
    "harness/models/cassette:_parsed": CASSETTE,
    "harness/models/cassette_checks:_checked_call": APART,
    "harness/models/cassette_checks:_parse_call": APART,
    "harness/models/cassette_file:_connect": CASSETTE,
    "harness/models/cassette_file:_our_layout": CASSETTE,
    "harness/models/cassette_file:decoded": CASSETTE,
    "harness/models/convert:_load_checkpoint": APART,
    "harness/models/exchange:_export": ARCHIVE,
    "harness/models/exchange:read_stats": APART,
    "harness/models/grants:_read": WRITTEN_BY_US,
    "harness/models/hosts/keeper:Hosts._work": TEXT,
    "harness/models/hosts/wire:receive": TEXT,
    "harness/models/hosts/wire:receive_now": TEXT,
    "harness/models/named_cassettes:_checked": WRITTEN_BY_US,
    "harness/models/service:_read": TEXT,
    "harness/outside:_parsed": APART,
    "harness/outside:arrays": APART,
    "harness/outside:check_parquet": APART,
    "harness/outside:npy": APART,
    "harness/outside:picture": APART,
    "harness/playback/log_clips:_first_call": APART,
    "harness/playback/log_clips:rows_of": APART,
    "harness/records/answers:_read": WRITTEN_BY_US,
    "harness/records/attempts:_finished": WRITTEN_BY_US,
    "harness/records/clips:document": APART,
    "harness/records/compact:_rows": WRITTEN_BY_US,
    "harness/records/files:read_json": WRITTEN_BY_US,
    "harness/records/leases:_read": BOUNDED,
    "harness/records/role_counts:read": FOLLOWED,
    "harness/records/study:RunDirectory.live": FOLLOWED,
    "harness/records/study:RunDirectory.read": FOLLOWED,
    "harness/records/study:StudyDirectory.read": FOLLOWED,
    "harness/run/guide_activity:_json_lines": WRITTEN_BY_US,
    "harness/run/guide_activity:_metrics": WRITTEN_BY_US,
    "harness/run/pilot:chosen_difficulties": WRITTEN_BY_US,
    "harness/run/scores:_columns": WRITTEN_BY_US,
    "harness/run/estimates/timings:cached_timing": WRITTEN_BY_US,
    "harness/run/estimates/measuring:main": TEXT,
    "harness/run/estimates/measuring:timed": WRITTEN_BY_US,
    "harness/run/memory:in_process": TEXT,
    "harness/run/memory:main": TEXT,
    "harness/run/memory:needed": WRITTEN_BY_US,
    "harness/run/stages:begin": WRITTEN_BY_US,
    "harness/run/unanswered:last_row": FOLLOWED,
    "harness/trackers/points:_final_step": APART,
    "harness/trackers/points:_object": APART,
    "harness/trackers/points:_rows": APART,
    "methods/dsadf/memory:Memory.unpack": WRITTEN_BY_US,
    "methods/dsadf/oracle:KnownAction.__call__": TEXT,
    "methods/dsadf/oracle:KnownPlan.__call__": TEXT,
    "methods/dsadf/oracle:KnownReflection.__call__": TEXT,
    "methods/dsadf/scripted:PromptScorer.weigh": TEXT,
    "methods/ellm/memory:StateGoals.load_state": WRITTEN_BY_US,
    "methods/kagi/oracle:PoseReader.__call__": TEXT,
    "methods/kagi/report:_array": TEXT,
    "methods/kagi/scripted:stated_start": TEXT,
    "methods/lagea/feedback/oracle:MeasureReader.__call__": TEXT,
    "methods/linvit/scripted:Weigher.weigh": TEXT,
    "reports/leaderboard/costs:_row": APART,
    "reports/leaderboard/frames:_shrunk": APART,
    "reports/papers/matching:_parsed": TEXT,
    "reports/rendering/charts:bundle": PACKAGE,
    "reports/runs/calls:_call": APART,
    "results/galleries:_decoded": APART,
    "results/row_log:RowLog._add": APART,
    "results/importing:_read": APART,
    "results/limits:footer": APART,
    "results/policies:table": APART,
    "results/published/__init__:_rows": PACKAGE,
    "results/evaluations:_of_file": APART,
    "results/rows:_Reader._lines": APART,
    "results/rows:_Reader._parquet": APART,
    "results/store:document": APART,
    "results/submissions/consistency:_check_columns": APART,
    "results/submissions/consistency:_check_order": APART,
    "results/submissions/consistency:_configuration": APART,
    "results/submissions/galleries:_check_own": APART,
    "results/submissions/galleries:check": APART,
    "results/submissions/opening:_unpack": APART,
    "results/submissions/packing:write": ARCHIVE,
    "results/submissions/strict:parsed": APART,
    "results/verification/configuration:_checked": APART,
    "results/verification/reasking:_recorded": APART,
    "results/verification/record:_read": APART,
    "suites/housekeep/convert:interpret": APART,
    "suites/housekeep/convert:opened": APART,
    "suites/housekeep/preferences:rows_of": APART,
}
"""MODULE:FUNCTION -> reason why its parsing cannot harm the process of the command."""

FOLLOWERS: dict[str, str] = {
    "harness/commands/cancel_:run": APART,
    "harness/commands/status_:_row": APART,
    "harness/commands/status_:state_text": APART,
    "harness/run/queues:_cancel": APART,
    "harness/run/queues:_of": APART,
    "harness/trackers/base:Tracker.follow": "calls `standing` itself only where the caller gives none: in tests",
    "harness/trackers/following:Following.__init__": APART,
    "harness/trackers/following:_is_held": APART,
    "harness/trackers/following:_standing": APART,
    "harness/trackers/following:runs": APART,
    "results/following:_progress": APART,
}
"""MODULE:FUNCTION of commands that follow a study -> reason why its reading of records cannot harm the process."""
