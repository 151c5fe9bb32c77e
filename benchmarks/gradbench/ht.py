"""ht: hand tracking, the distances between measured points and a posed hand, and their Jacobian.

The hand is a mesh whose vertices follow bones. Of the 26 numbers of `theta` three are a rotation of
the whole and three a translation; the others bend fingers, four each. A point belongs to a vertex
or, with `us`, to a place in a triangle.
"""

import numpy as np

import wengert as wg

# Where each number behind the first six goes: of a finger's first bone two angles, then one each.
BENDING = [
    (finger * 4 + bone + 2, angle)
    for finger in range(5)
    for bone, angle in ((0, 0), (0, 1), (1, 0), (2, 0))
]


def global_rotation(axis):
    norm = np.sqrt(np.sum(axis**2))
    x, y, z = axis / norm
    s, c = np.sin(norm), np.cos(norm)
    rotation = wg.numpy.array(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )
    return wg.numpy.where(norm < 1e-4, np.eye(3), rotation)


def rotations(angles):
    """4 x 4 matrices that turn about x, then y, then z; an angle of each bone's for each."""
    (sx, sz, sy), (cx, cz, cy) = np.sin(angles).T, np.cos(angles).T
    zero, one = np.zeros(len(angles)), np.ones(len(angles))
    rows = [
        [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
        [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
        [-sy, cy * sx, cy * cx, zero],
        [zero, zero, zero, one],
    ]
    return wg.numpy.moveaxis(wg.numpy.array([wg.numpy.stack(row) for row in rows]), 2, 0)


def posed(theta, model, parents, mirrored):
    """The vertices of the hand."""
    angles = wg.numpy.zeros((len(parents), 3))
    for number, place in enumerate(BENDING):
        angles[place] = theta[6 + number]
    relatives = model["relatives"] @ rotations(angles)
    absolutes = []
    for bone, parent in enumerate(parents):
        own = relatives[bone]
        absolutes.append(own if parent == -1 else absolutes[parent] @ own)
    transforms = wg.numpy.stack(absolutes) @ model["inverse_absolutes"]
    skin = model["weights"][:, :, None] * model["positions"][:, None, :]
    moved = np.einsum("vbj,bij->vi", skin, transforms[:, :3])
    if mirrored:
        moved = moved * np.array([-1.0, 1.0, 1.0])
    return moved @ global_rotation(theta[:3]).T + theta[3:6]


def to_vertices(hand, points, vertices):
    """The distance of each point to its vertex."""
    return points - hand[vertices]


def to_triangles(hand, us, points, corners):
    """The distance of each point to its place in a triangle."""
    first, second, third = (hand[corners[:, k]] for k in range(3))
    u, v = us[:, :1], us[:, 1:]
    return points - (u * first + v * second + (1 - u - v) * third)


def vertex_errors(theta, points, vertices, model, parents, mirrored):
    return to_vertices(posed(theta, model, parents, mirrored), points, vertices)


def triangle_errors(theta, us, points, corners, model, parents, mirrored):
    return to_triangles(posed(theta, model, parents, mirrored), us, points, corners)


def by_theta(errors, theta, model, parents, mirrored):
    """The hand, and the derivatives of errors that depend on it: a row for each of theta."""
    hand, moved = wg.linearize(lambda theta: posed(theta, model, parents, mirrored), theta)
    return hand, wg.vmap(lambda t: wg.jvp(errors, (hand,), (moved(t),))[1])(np.eye(26))


def jacobian_of_vertices(theta, points, vertices, model, parents, mirrored):
    """A column for each of theta."""

    def errors(hand):
        return to_vertices(hand, points, vertices)

    return wg.numpy.moveaxis(by_theta(errors, theta, model, parents, mirrored)[1], 0, -1)


def jacobian_of_triangles(theta, us, points, corners, model, parents, mirrored):
    """Two columns for the places in triangles, which no two points share, then those of theta."""

    def errors(hand, us=us):
        return to_triangles(hand, us, points, corners)

    hand, rows = by_theta(errors, theta, model, parents, mirrored)
    by_place = [
        wg.jvp(lambda us: errors(hand, us), (us,), (0 * us + np.eye(2)[k],))[1] for k in range(2)
    ]
    return wg.numpy.moveaxis(wg.numpy.concatenate([wg.numpy.stack(by_place), rows]), 0, -1)


def compiled(function, *each):
    """For any number of points."""
    dynamic = dict.fromkeys(("points", *each), 0)
    return wg.jit(function, static_argnames=("parents", "mirrored"), dynamic=dynamic)


simple = {
    "objective": compiled(vertex_errors, "vertices"),
    "jacobian": compiled(jacobian_of_vertices, "vertices"),
}
complicated = {
    "objective": compiled(triangle_errors, "us", "corners"),
    "jacobian": compiled(jacobian_of_triangles, "us", "corners"),
}


def prepare(sent):
    data, given = sent["data"], sent["data"]["model"]
    names = {
        "relatives": "base_relatives",
        "inverse_absolutes": "inverse_base_absolutes",
        "positions": "base_positions",
        "weights": "weights",
    }
    model = {own: np.array(given[name]) for own, name in names.items()}
    rest = (model, tuple(given["parents"]), bool(given["is_mirrored"]))
    at = np.array(data["correspondences"])
    theta, points = np.array(sent["theta"]), np.array(data["points"])
    if not sent["us"]:
        return simple, theta, points, at, *rest
    corners = np.array(given["triangles"])[at]
    return complicated, theta, np.array(sent["us"]), points, corners, *rest


functions = {
    "objective": lambda variant, *arguments: variant["objective"](*arguments),
    "jacobian": lambda variant, *arguments: variant["jacobian"](*arguments),
}
answers = {
    "objective": lambda found: found.ravel().tolist(),
    "jacobian": lambda found: found.reshape(-1, found.shape[-1]).tolist(),
}
