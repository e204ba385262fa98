"""The files of a study: directory layout, schema, writers and readers.

STUDY/study.json                                        name, command, cells
STUDY/logs/                                             what each worker wrote to standard error
STUDY/jobs/                                             jobs and events of workers without a pipe
STUDY/<suite>/<task>/<method>-<cell>/cell.json          resolved configuration, with the source of each value
STUDY/<suite>/<task>/<method>-<cell>/seed-<k>/
    .lease/               who may write the run, by epoch (leases.py)
    attempt-<epoch>/      all of the following, after another machine lost the run (attempts.py)
    run.json              status, step, provenance, error
    .live.json            current step, steps per second and score, while a worker trains the run
    evaluations.jsonl     one record per evaluation episode
    timings.jsonl         steps per second, and time spent on evaluation, judging and waiting
    metrics.jsonl         losses, training episodes, sampler diagnostics
    judgements.jsonl      for cells with a judge, per judged clip: step asked, step applied, score, events in the clip
    probes.jsonl          along the task's reference episode: moves, events, judge scores, critic values
    subgoals.jsonl        for tasks with subgoals: which of them held at the end of each evaluation episode
    outcomes.jsonl        for tasks that count more of an episode, such as completion: these numbers
    ledger.jsonl          cumulative calls, tokens, time and cost of the run's questions to models
    model_answers.jsonl   with answers=true: the first answers of its models; answers.parquet when the run is finished
    LOG.jsonl             each log that a part of the cell declares (cell.json holds its columns)
    checkpoint-<step>/    the two newest checkpoints
    replay/               the ring of stored transitions

When a run is finished, its logs become NAME.parquet in place of NAME.jsonl, except the ledger.
"""
