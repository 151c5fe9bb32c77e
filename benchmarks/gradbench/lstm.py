"""lstm: the loss of a recurrent network whose weight matrices are diagonal."""

import numpy as np

import wengert as wg


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(weight, bias, hidden, memory, given):
    w_forget, w_in, w_out, w_change = weight.reshape(4, -1)
    b_forget, b_in, b_out, b_change = bias.reshape(4, -1)
    forget = sigmoid(given * w_forget + b_forget)
    ingate = sigmoid(hidden * w_in + b_in)
    outgate = sigmoid(given * w_out + b_out)
    change = np.tanh(hidden * w_change + b_change)
    memory = memory * forget + ingate * change
    return outgate * np.tanh(memory), memory


def loss(parameters, state, sequence):
    main, (in_weight, out_weight, out_bias) = parameters

    def step(states, rows):
        value, wanted = rows
        given, new = value * in_weight, []
        for layer, (hidden, memory) in enumerate(states):
            given, memory = cell(main[2 * layer], main[2 * layer + 1], hidden, memory, given)
            new.append((given, memory))
        predicted = given * out_weight + out_bias
        total = np.log(np.sum(np.exp(predicted)) + 2)
        return new, np.sum(wanted * (predicted - total))

    states = [(state[k], state[k + 1]) for k in range(0, len(state), 2)]
    _, gains = wg.scan(step, states, (sequence[:-1], sequence[1:]))
    return -np.sum(gains) / sequence[1:].size


def prepare(sent):
    main, extra, state, sequence = (
        np.array(sent[name]) for name in ("main_params", "extra_params", "state", "sequence")
    )
    return (main, extra), state, sequence


def flat(found):
    return np.concatenate([part.ravel() for part in found]).tolist()


functions = {"objective": wg.jit(loss), "jacobian": wg.jit(wg.grad(loss))}
answers = {"jacobian": flat}
