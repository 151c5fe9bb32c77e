"""What the pictures of the explain page show: the papers' (x + y) z, and a training step."""

import wengert as wg
from wengert import nn
from wengert.nn.functional import max_pool2d, relu


def figure(x, y, z):
    return (x + y) * z


class Digits(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.conv2 = nn.Conv2d(6, 16, 3)
        self.dense = nn.Sequential(nn.Linear(400, 84), nn.ReLU(), nn.Linear(84, 10))

    def forward(self, x):
        x = max_pool2d(relu(self.conv1(x)), 2)
        x = max_pool2d(relu(self.conv2(x)), 2)
        return self.dense(x.reshape(len(x), -1))


def digit_step():
    model = Digits()
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    @wg.jit
    def step(images, labels):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step
