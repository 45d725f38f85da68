"""Every code that a finding can carry, with the sentence it stands for. `docs/doctor.md` explains each."""

from __future__ import annotations

CODES: dict[str, str] = {
    # before the first step: y
    "target-shape": "y does not have the shape that the likelihood needs",
    "target-type": "y holds values that the likelihood cannot score",
    "label-range": "a class code lies outside the classes",
    "non-finite-target": "a target is missing or infinite",
    "bad-weight": "an example's weight is negative or not finite",
    "one-class": "all training rows belong to one class",
    "constant-target": "the target never changes in the training split",
    "target-resolution": "the target varies by less than single precision can tell",
    "class-missing": "a class is tested that was never trained",
    "class-imbalance": "some classes are much rarer than others",
    # before the first step: x
    "non-finite-input": "the network would read a value that is missing or infinite",
    "constant-column": "a column never changes",
    "duplicate-column": "two columns hold the same values",
    "target-leak": "a column gives the answer away",
    "unscaled-input": "the columns are measured on very different or very large scales",
    # before the first step: rows of tokens
    "mostly-padding": "most places of the rows are padding",
    "unused-vocabulary": "most of the vocabulary never occurs in the training text",
    "short-documents": "documents are much shorter than the context",
    # before the first step: the graph
    "isolated-nodes": "some nodes have no edge to another",
    "constant-nodes": "all nodes have the same numbers, and the network gives all of them the same answer",
    "unlike-neighbours": "neighbours mostly belong to other classes",
    "unread-edges": "the network does not read all columns of the edges",
    "deeper-than-graph": "the network has more layers than the graph has steps",
    # before the first step: the splits
    "shared-rows": "rows of a held-out split stand in the training split too",
    "small-val": "the validation split is too small to judge by",
    # before the first step: the model
    "no-trainable-parameters": "the model has nothing to train",
    "model-input": "the model cannot take these inputs",
    "output-shape": "the model's output does not fit the likelihood",
    "sees-ahead": "the model sees the tokens that it must predict",
    "double-softmax": "the model ends in the squashing that the likelihood already does",
    "relu-output": "the model's last step cuts off negative outputs",
    "bounded-output": "the model's last step cannot reach some targets",
    # before the first step: the first weights
    "vanishing-signal": "all rows look alike to the last layer",
    "wild-start": "the first answers are far too large",
    "equal-units": "the units of a layer start equal and stay equal",
    "vanishing-recurrence": "what happened long ago in a row has no influence on the loss",
    "exploding-recurrence": "the gradient grows from step to step on its way back through time",
    # during the run
    "dead-units": "most units of a layer are zero for every example",
    "saturated-units": "most activations of a layer lie where the function is flat",
    "vanishing-gradient": "hardly any gradient reaches the first layer",
    "exploding-gradient": "the gradient grows out of bounds on its way to the first layer",
    "disconnected-parameters": "some parameters have no influence on the loss",
    "large-updates": "each step rewrites the weights instead of adjusting them",
    "small-updates": "the weights hardly move",
    "loss-spike": "the loss jumped up and came back",
    "loss-jump": "the loss jumped up and stayed there",
    # when a step fails
    "non-finite-weights": "a weight was not finite before the step",
    "non-finite-forward": "a module turned finite inputs into values that are not finite",
    "non-finite-loss": "the loss of finite outputs is not finite",
    "non-finite-backward": "the gradient stopped being finite on its way back",
    "diverged": "the update itself went out of bounds",
    # after the run
    "underfitting": "the model barely beats a constant guess, or is worse, even on the rows it trained on",
    "overfitting": "the model is much better on the rows it trained on than on others",
    "over-smoothed": "the network gives all nodes the same answer",
    "no-better-than-constant": "on held-out rows the model is no better than a constant guess",
    "miscalibrated": "the probabilities are wrong: what is given 80 % comes true more or less often",
    "interval-coverage": "the intervals do not hold as many targets as they should",
    "test-worse-than-val": "the test split is clearly worse than the validation split",
}
