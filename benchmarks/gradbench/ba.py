"""ba: bundle adjustment, its errors and their sparse Jacobian.

A camera has a rotation (axis times angle), a centre, a focal length, a principal point and two
parameters of radial distortion. An observation depends on one camera, one point and one weight, so
the Jacobian has a block of 2 x 15 for each, and one entry for the error of each weight.
"""

import numpy as np
import scipy.sparse

import wengert as wg


def rotated(axis, point):
    """Rodrigues' formula; without rotation the cross product alone, for its derivative."""
    squared = np.sum(axis**2)
    turned = squared > 0
    angle = np.sqrt(np.where(turned, squared, 1.0))
    unit = axis / angle
    along = np.sum(unit * point) * (1 - np.cos(angle))
    whole = point * np.cos(angle) + np.cross(unit, point) * np.sin(angle) + unit * along
    return np.where(turned, whole, point + np.cross(axis, point))


def reprojection_error(camera, point, weight, feature):
    seen = rotated(camera[:3], point - camera[3:6])
    flat = seen[:2] / seen[2]
    squared = np.sum(flat**2)
    distorted = flat * (1 + camera[9] * squared + camera[10] * squared**2)
    return weight * (distorted * camera[6] + camera[7:9] - feature)


def weight_error(weight):
    return 1 - weight**2


def errors(cameras, points, weights, features, at, of, pattern):
    reprojection = wg.vmap(reprojection_error)(cameras[at], points[of], weights, features)
    return reprojection, weight_error(weights)


@wg.jit
def entries(cameras, points, weights, features, at, of):
    """The entries of the Jacobian, row by row."""
    blocks = wg.vmap(wg.jacrev(reprojection_error, argnums=(0, 1, 2)))
    by_camera, by_point, by_weight = blocks(cameras[at], points[of], weights, features)
    rows = np.concatenate([by_camera, by_point, by_weight[:, :, None]], axis=2)
    return np.concatenate([rows.reshape(-1), wg.vmap(wg.grad(weight_error))(weights)])


def jacobian(cameras, points, weights, features, at, of, pattern):
    data = entries(cameras, points, weights, features, at, of)
    columns, starts = pattern
    shape = (len(starts) - 1, cameras.size + points.size + weights.size)
    return scipy.sparse.csr_matrix((data, columns.copy(), starts.copy()), shape)


def places(n, m, at, of):
    """Where the entries stand: columns, and where each row starts."""
    p = len(at)
    camera, point = 11 * at[:, None] + np.arange(11), 11 * n + 3 * of[:, None] + np.arange(3)
    weight = 11 * n + 3 * m + np.arange(p)[:, None]
    blocks = np.repeat(np.concatenate([camera, point, weight], axis=1), 2, axis=0)
    columns = np.concatenate([blocks.ravel(), weight.ravel()])
    starts = np.concatenate([[0], np.cumsum(np.repeat([15, 1], [2 * p, p]))])
    return columns.astype(np.int32), starts.astype(np.int32)


def prepare(sent):
    n, m, p = sent["n"], sent["m"], sent["p"]
    cameras, points = np.tile(np.array(sent["cam"]), (n, 1)), np.tile(np.array(sent["x"]), (m, 1))
    weights, features = np.full(p, float(sent["w"])), np.tile(np.array(sent["feat"]), (p, 1))
    at, of = np.arange(p) % n, np.arange(p) % m  # the camera and the point of each observation
    return cameras, points, weights, features, at, of, places(n, m, at, of)


def shortened(values):
    """The first observation and the last weight: the others are the same again."""
    return [*values[:30].tolist(), values[-1].item()]


functions = {"objective": wg.jit(errors), "jacobian": jacobian}
answers = {
    "objective": lambda found: {
        "reproj_error": {"elements": found[0][0].tolist(), "repeated": len(found[0])},
        "w_err": {"element": found[1][0].item(), "repeated": len(found[1])},
    },
    "jacobian": lambda found: {
        "rows": shortened(found.indptr),
        "cols": shortened(found.indices),
        "vals": shortened(found.data),
    },
}
