"""Robotics: an arm of five joints follows a path.

Inverse kinematics: the Jacobian of the hand's place by the angles gives the change of angles that
moves the hand along. The arm starts each step from the last one, and keeps its joints as straight
as it can.
"""

import numpy as np

import wengert as wg

LENGTHS = np.array([1.0, 0.9, 0.8, 0.7, 0.4])


def joints(angles):
    """The places of all joints."""
    turned = np.cumsum(angles)
    steps = LENGTHS[:, None] * np.stack([np.cos(turned), np.sin(turned)], axis=1)
    return np.cumsum(steps, axis=0)


def hand(angles):
    return joints(angles)[-1]


@wg.jit
def improve(angles, goal):
    """A damped step of Gauss and Newton's method towards the goal."""
    slope = wg.jacobian(hand)(angles)
    pull = np.linalg.solve(slope @ slope.T + 1e-3 * np.eye(2), goal - hand(angles))
    rest = -0.01 * angles
    free = rest - slope.T @ np.linalg.solve(slope @ slope.T + 1e-3 * np.eye(2), slope @ rest)
    return angles + slope.T @ pull + free


def run():
    turn = np.linspace(0, 2 * np.pi, 60)
    goals = np.stack([2.0 + 0.8 * np.cos(turn), 1.0 + 0.8 * np.sin(turn)], axis=1)
    angles, poses = np.full(5, 0.2), []
    for goal in goals:
        for _ in range(15):
            angles = improve(angles, goal)
        poses.append(np.asarray(joints(angles)))
    return {"goals": goals, "poses": np.array(poses)}


def check(found):
    miss = np.linalg.norm(found["poses"][:, -1] - found["goals"], axis=1)
    assert miss.max() < 0.01, miss.max()


def draw(figure, found):
    axes = figure.subplots()
    for pose in found["poses"][::6]:
        axes.plot(*np.vstack([np.zeros(2), pose]).T, "o-", ms=3, color="tab:blue", alpha=0.4)
    axes.plot(*found["goals"].T, "r--", label="the path of the hand")
    axes.set(aspect="equal")
    axes.legend()
