"""The record of a study: directory layout, schema, writer and reader. What the loop writes, everything else reads.

STUDY/study.json                                        name, command, cells
STUDY/<suite>/<task>/<method>-<cell>/cell.json          resolved configuration, with the source of each value
STUDY/<suite>/<task>/<method>-<cell>/seed-<k>/
    run.json              status, step, provenance, error
    .live.json            step, steps per second and success now, while a worker trains the run
    evaluations.jsonl     one row per evaluation episode
    timings.jsonl         clock: steps per second, share of evaluation, judging, waiting
    metrics.jsonl         losses, training episodes, sampler diagnostics
    judgements.jsonl      of a cell with a judge: one row per judged clip: step asked, step applied, score, events in it
    probes.jsonl          along the task's reference episode: moves and events, the judge's scores, the critic's values
    subgoals.jsonl        which parts of its success held at the end of each evaluation episode, where a task has parts
    ledger.jsonl          what the run's questions to models took so far
    LOG.jsonl             each log that a part of the cell declares (cell.json holds its columns)
    checkpoint-<step>/    the two newest
    replay/               the ring of stored transitions

Once a run is finished, its rows and logs are NAME.parquet in place of NAME.jsonl, but for the ledger.
"""
