"""An unknown word of a command is answered with the word that was probably meant, and how to write it."""

import pytest

from guidebench.harness.plan import matrix
from tests.refusals import check_refused

BASE = ("suite=minigrid_doorkey", "profile=smoke")
SAC = ("suite=metaworld_mt10", "method=sac", "profile=smoke")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        # words of other tools, with the meaning of their values here
        ((*BASE, "seed=3"), r"'seed'; write seeds=3 for 3 seeds, or seeds=\[3\] for seed 3 alone$"),
        (("env=8x8", "method=uer"), "'env'; write suite=minigrid_doorkey task=8x8$"),
        (("env=classic", "method=uer"), "'env'; write suite=classic$"),
        (("env=MiniGrid-DoorKey-8x8-v0",), "write suite=minigrid_doorkey task=8x8$"),
        (("env=HalfCheetah-v4",), "write suite=classic task=HalfCheetah-v5$"),
        ((*BASE, "algo=dqn"), "'algo'; write learner=dqn$"),
        ((*BASE, "algorithm=per"), "'algorithm'; write method=per$"),
        ((*BASE, "wandb=true"), "'wandb'; write trackers=wandb$"),
        ((*BASE, "total_timesteps=1e5"), r"did you mean 'training.steps'\?$"),
        ((*BASE, "lr=1e-3"), r"did you mean 'learner.lr'\?$"),
        ((*SAC, "lr=1e-3"), r"did you mean 'learner.actor_lr' or 'learner.critic_lr' or 'learner.alpha_lr'\?$"),
        # settings: of this learner, of another section, misspelt sections
        ((*SAC, "learner.lr=1"), "learner 'sac' has learner.actor_lr, learner.alpha_lr, learner.critic_lr$"),
        ((*SAC, "learner.learning_rate=1"), "learner 'sac' has learner.actor_lr"),
        ((*BASE, "learner.gamma=0.9"), "learner 'dqn' has learner.discount$"),
        ((*BASE, "train.steps=9"), r"did you mean 'training.steps'\?$"),
        ((*BASE, "learnr.lr=9"), r"did you mean 'learner.lr'\?$"),
        ((*BASE, "learner.steps=9"), "has learner.gradient_steps, and there is 'training.steps'$"),
        ((*BASE, "learner.capacity=9"), r"did you mean 'training.capacity'\?$"),
        ((*BASE, "models.budget=9"), "did you mean 'models.budget_calls'"),
        # names of another kind, and of no kind
        ((*BASE, "method=dqn"), "unknown method 'dqn': dqn is a learner; write method=uer learner=dqn$"),
        ((*BASE, "method=rnd"), "rnd is a guide; write method=curiosity, which uses it, or guide=rnd$"),
        ((*BASE, "agent=dqn"), "dqn is a learner; write learner=dqn$"),
        ((*BASE, "learner=per"), "per is a method and a replay; write method=per or replay=per$"),
        ((*BASE, "judge=scripted"), "scripted is a set of models, a chat and an embedder; write models=scripted or "),
        ((*BASE, "method=quick"), "quick is a profile; write profile=quick$"),
        (("suite=cartpole",), "CartPole-v1 is a task of suite classic; write suite=classic task=CartPole-v1$"),
        ((*BASE, "task=reach"), "suite metaworld has it: write suite=metaworld task=reach$"),
        ((*BASE, "method=uniform"), "write method=uer$"),
        ((*BASE, "method=vlm_rb", "judge=gpt-4o"), "judge=openai judge.model=gpt-4o$"),
        ((*BASE, "method=ppo"), r"uer, vlm_rb, vlm_rm\); no part .*learners: bc, .*, sac, td3\); `bench list methods`"),
        ((*BASE, "method=nope"), r"unknown method 'nope' \(known: "),
        # values that are missing, numbers, and words split by a space
        (("suit=", "method=uer"), "did you mean 'suite'.* suite= takes one of bin_sorting, classic"),
        (("suite=",), r"suite=: expected a name \(bin_sorting, classic"),
        ((*BASE, "task=5"), r"unknown task of suite 'minigrid_doorkey': '5'; did you mean '5x5'\?"),
        ((*BASE, "method=uer,", "per"), "no space after the comma; write method=uer,per$"),
        ((*BASE, "method=uer", ",per", "seeds=1"), "no space before the comma; write method=uer,per$"),
        ((*BASE, "method=uer,", "per,", "aer", "seeds=1"), "write method=uer,per,aer$"),
        ((*BASE, "method=uer,"), "it ends with a comma; name another value after it, or leave the comma out$"),
        ((*BASE, "seeds=[0,", "3]"), r"no space after the comma; write seeds=\[0,3\]$"),
        ((*BASE, "seeds=[0"), r"cannot be read: \] is missing at its end$"),
        ((*BASE, "method=", "uer"), "no space after =; write method=uer$"),
        ((*BASE, "method", "=uer"), "no space before =; write method=uer$"),
        ((*BASE, "method", "uer"), "write method=uer$"),
        ((*BASE, "method:uer"), "write method=uer$"),
        ((*BASE, "method=vlm", "rb"), "write method=vlm_rb$"),
        ((*BASE, "learner.", "lr=1"), "write learner.lr=1$"),
        ((*BASE, "vlmrb"), "write method=vlm_rb$"),
        ((*BASE, "dry-run"), "the option is --dry-run$"),
    ],
)  # fmt: skip
def test_an_unknown_word_is_answered_by_the_word_that_was_meant(words: tuple[str, ...], says: str) -> None:
    last = {text.partition("=")[0]: text for text in words if "=" in text and not text.startswith("=")}
    command = [text for text in words if last.get(text.partition("=")[0], text) == text]
    check_refused(says, matrix.plan, command)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("suite=classic", "suite=Pendulum-v1"), "suite= is given twice, and Pendulum-v1 is a task of suite classic; "),
        (("suite=classic", "method=uer", "method=quick"), "given twice, and quick is a profile; write profile=quick$"),
        (("suite=classic", "method=uer", "method=sac"), "for several values; sac is also a learner: learner=sac$"),
        (("suite=classic", "suite=crafter"), "suite= is given twice; name it once, with commas for several values$"),
        (("method=uer", "task=8x8"), "no suite named; add suite=minigrid_doorkey, which has that task$"),
        (("task=metaworld", "method=uer"), "no suite named, and task=metaworld: metaworld is a suite; write suite=met"),
        (("agent=dsadf",), "dsadf is a method; write method=dsadf$"),
        ((*BASE, "task=metaworld"), "metaworld is a suite; write suite=metaworld$"),
        (("suite=crafter_ood", "task=tak2"), r"did you mean 'task2'\?"),
        (("suite=classic", "profile=Pendulum-v1"), "is a task of this suite; write task=Pendulum-v1$"),
        (("suite=classic", "method=paper"), "is a profile and a set of models; write profile=paper or models=paper$"),
        ((*BASE, "preraining.task=5x5"), r"did you mean 'pretraining.task'\?$"),
        ((*BASE, "pretraining=per", "pretraining.repla=uer"), r"of a stage 'repla'; did you mean 'pretraining.replay'"),
        ((*BASE, "seeds=3", "wandb,mlflow"), "write trackers=wandb,mlflow$"),
        ((*BASE, "training.steps", "seeds=3"), "write training.steps=…$"),
        (("suite=crafter", "masked"), "write suite.impossible=masked$"),
        ((*BASE, "text", "embedder.width=3"), "no space in a name; write text_embedder.width=3$"),
        ((*BASE, "method=zeb", "qqqra"), "if it belongs to 'method=zeb', write method=zebqqqra without a space"),
    ],
)
def test_a_word_in_another_s_place_is_answered_by_what_it_is(words: tuple[str, ...], says: str) -> None:
    check_refused(says, matrix.plan, words)
