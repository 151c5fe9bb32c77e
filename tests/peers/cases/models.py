"""Functions as they are met in practice, composed of many operations."""

import numpy as np

V = np.array([0.3, -0.7, 1.2, -1.6])
P = np.array([0.4, 0.9, 1.7, 2.6])
S = np.array([0.3, -0.7, 1.2, -1.6, 0.8, 2.1])
T = np.linspace(0.0, 2.0, 7)
DATA = np.sin(3 * T) + 0.1 * T
FEATURES = np.cos(np.arange(14.0)).reshape(7, 2)
LABELS = np.array([0, 1, 1, 0, 1, 0, 1])
CLASSES = np.array([0, 2, 1, 1, 0, 2, 2])


def rosenbrock(xp, x):
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rastrigin(xp, x):
    return 10 * x.size + xp.sum(x**2 - 10 * xp.cos(2 * np.pi * x))


def ackley(xp, x):
    spread = -20 * xp.exp(-0.2 * xp.sqrt(xp.mean(x**2)))
    return spread - xp.exp(xp.mean(xp.cos(2 * np.pi * x))) + 20 + np.e


def normal_likelihood(xp, x):
    mean, log_scale = x[0] + x[1] * T, x[2]
    z = (DATA - mean) / xp.exp(log_scale)
    return xp.sum(-0.5 * z**2 - log_scale - 0.5 * np.log(2 * np.pi))


def student_likelihood(xp, x):
    nu = xp.exp(x[1]) + 1
    z = (DATA - x[0]) ** 2 / nu
    constant = xp.gammaln((nu + 1) / 2) - xp.gammaln(nu / 2) - 0.5 * xp.log(np.pi * nu)
    return xp.sum(constant - (nu + 1) / 2 * xp.log1p(z))


def poisson_regression(xp, x):
    rate = FEATURES @ x[:2] + x[2]
    return xp.sum(CLASSES * rate - xp.exp(rate) - xp.gammaln(CLASSES + 1.0))


def beta_likelihood(xp, x):
    observed = (DATA + 2) / 4
    a, b = xp.exp(x[0]), xp.exp(x[1])
    return xp.sum((a - 1) * np.log(observed) + (b - 1) * np.log(1 - observed) - xp.betaln(a, b))


def dirichlet(xp, x):
    a = xp.exp(x)
    p = xp.softmax(x[::-1], axis=-1)
    return xp.gammaln(xp.sum(a)) - xp.sum(xp.gammaln(a)) + xp.sum((a - 1) * xp.log(p))


def mixture(xp, x):
    log_weight = xp.log_softmax(x[:2], axis=-1)
    z = DATA[:, None] - x[None, 2:4]
    return xp.sum(xp.logsumexp(log_weight - 0.5 * z**2, axis=1))


def logistic_regression(xp, x):
    z = FEATURES @ x[:2] + x[2]
    return xp.mean(xp.logaddexp(0.0, z) - LABELS * z) + 0.1 * xp.sum(x**2)


def softmax_regression(xp, x):
    logits = FEATURES @ x.reshape(2, 3)
    return -xp.mean(xp.log_softmax(logits, axis=1)[np.arange(7), CLASSES])


def probit(xp, x):
    z = FEATURES @ x[:2] * (2 * LABELS - 1)
    return -xp.sum(xp.log(xp.ndtr(z)))


def ridge(xp, x):
    residual = FEATURES @ x[:2] - DATA
    return residual @ residual / 7 + 0.3 * xp.dot(x, x)


def huber(xp, x):
    residual = x[0] + x[1] * T - DATA
    size = xp.abs(residual)
    return xp.sum(xp.where(size < 0.5, 0.5 * residual**2, 0.5 * size - 0.125))


def mlp(xp, x):
    hidden = xp.tanh(FEATURES @ x[:4].reshape(2, 2) + x[4])
    return xp.mean((hidden @ x[4:6] - DATA) ** 2)


def mlp_relu(xp, x):
    hidden = xp.maximum(FEATURES @ x[:4].reshape(2, 2), 0)
    return xp.mean((hidden @ x[4:6] - DATA) ** 2)


def attention(xp, x):
    query = FEATURES[:4] @ x.reshape(2, 2)
    weights = xp.softmax(query @ FEATURES[:4].T / np.sqrt(2.0), axis=-1)
    return weights @ FEATURES[:4]


def causal_attention(xp, x):
    scores = FEATURES[:4] @ x.reshape(2, 2) @ FEATURES[:4].T
    masked = xp.where(np.tri(4) > 0, scores, -1e30)
    return xp.softmax(masked, axis=-1) @ FEATURES[:4]


def layer_norm(xp, x):
    rows = x.reshape(2, 3)
    centred = rows - xp.mean(rows, axis=-1, keepdims=True)
    return centred / xp.sqrt(xp.var(rows, axis=-1, keepdims=True) + 1e-5) * np.array([1.0, 2, 3])


def batch_norm(xp, x):
    z = FEATURES @ x.reshape(2, 2)
    return xp.sum(xp.tanh((z - xp.mean(z, axis=0)) / xp.std(z, axis=0)) ** 3)


def recurrent(xp, x):
    state = xp.zeros(2)
    for row in FEATURES:
        state = xp.tanh(x[:4].reshape(2, 2) @ state + row * x[4])
    return state


def gru_cell(xp, x):
    state = x[:2]
    for row in FEATURES[:3]:
        gate = xp.expit(row * x[2] + state * x[3])
        state = (1 - gate) * state + gate * xp.tanh(row + x[0] * state)
    return state


def kalman(xp, x):
    mean, variance, loss = x[0], xp.exp(x[1]), 0.0
    process, noise = xp.exp(x[2]), xp.exp(x[3])
    for observed in DATA:
        variance = variance + process
        total = variance + noise
        loss = loss + 0.5 * (xp.log(total) + (observed - mean) ** 2 / total)
        gain = variance / total
        mean, variance = mean + gain * (observed - mean), (1 - gain) * variance
    return loss


def kalman_matrix(xp, x):
    transition = np.array([[1.0, 0.1], [0.0, 1.0]])
    mean, covariance, loss = x[:2], xp.eye(2), 0.0
    for observed in DATA[:4]:
        mean, covariance = transition @ mean, transition @ covariance @ transition.T
        covariance = covariance + xp.exp(x[2]) * np.eye(2)
        spread = covariance[0, 0] + xp.exp(x[3])
        gain = covariance[:, 0] / spread
        error = observed - mean[0]
        loss = loss + xp.log(spread) + error**2 / spread
        mean = mean + gain * error
        covariance = covariance - xp.outer(gain, covariance[0])
    return loss


def gaussian_process(xp, x):
    distance = (T[:, None] - T[None, :]) ** 2
    covariance = xp.exp(x[0] - 0.5 * distance * xp.exp(-2 * x[1])) + xp.exp(x[2]) * np.eye(7)
    factor = xp.linalg.cholesky(covariance)
    half = xp.linalg.solve_triangular(factor, DATA, lower=True)
    return 0.5 * half @ half + xp.sum(xp.log(xp.diag(factor)))


def gaussian_process_slogdet(xp, x):
    covariance = xp.exp(-xp.abs(T[:, None] - T[None, :]) * xp.exp(x[0])) + xp.exp(x[1]) * np.eye(7)
    return 0.5 * DATA @ xp.linalg.solve(covariance, DATA) + 0.5 * xp.linalg.slogdet(covariance)[1]


def multivariate_normal(xp, x):
    factor = xp.tril(x[:4].reshape(2, 2), -1) + xp.diag(xp.exp(x[2:4]))
    z = xp.linalg.solve(factor, (FEATURES - x[:2]).T)
    return -0.5 * xp.sum(z**2) - 7 * xp.sum(x[2:4])


def bayesian_linear(xp, x):
    precision = xp.exp(x[0]) * np.eye(2) + xp.exp(x[1]) * FEATURES.T @ FEATURES
    mean = xp.exp(x[1]) * xp.linalg.solve(precision, FEATURES.T @ DATA)
    residual = DATA - FEATURES @ mean
    return 0.5 * xp.linalg.slogdet(precision)[1] + 0.5 * xp.exp(x[1]) * residual @ residual


def euler_step(xp, x):
    for _ in range(5):
        x = x + 0.1 * xp.stack([x[1], (1 - x[0] ** 2) * x[1] - x[0]])
    return x


def runge_kutta(xp, x):
    def slope(y):
        return xp.stack([x[2] * y[0] - x[3] * y[0] * y[1], 0.5 * y[0] * y[1] - y[1]])

    y = x[:2]
    for _ in range(3):
        a = slope(y)
        b = slope(y + 0.05 * a)
        c = slope(y + 0.05 * b)
        d = slope(y + 0.1 * c)
        y = y + 0.1 / 6 * (a + 2 * b + 2 * c + d)
    return y


def leapfrog(xp, x):
    position, momentum = x[:2], x[2:]
    for _ in range(4):
        momentum = momentum - 0.05 * xp.sin(position)
        position = position + 0.1 * momentum
        momentum = momentum - 0.05 * xp.sin(position)
    return xp.concatenate([position, momentum])


def lennard_jones(xp, x):
    points = x.reshape(3, 2) * 2
    upper, lower = np.triu_indices(3, 1)
    r2 = xp.sum((points[upper] - points[lower]) ** 2, axis=1)
    return xp.sum(1 / r2**6 - 2 / r2**3)


def coulomb(xp, x):
    points = x.reshape(3, 2)
    difference = points[:, None] - points[None, :]
    r = xp.sqrt(xp.sum(difference**2, axis=-1) + np.eye(3))
    return xp.sum(np.triu(np.ones((3, 3)), 1) / r)


def double_pendulum(xp, x):
    a, b, p, q = x[0], x[1], x[2], x[3]
    inner = p**2 + 2 * q**2 - 2 * p * q * xp.cos(a - b)
    return inner / (2 * (1 + xp.sin(a - b) ** 2)) - 2 * xp.cos(a) - xp.cos(b)


def spring_chain(xp, x):
    stretch = xp.diff(x) - 1
    return 0.5 * xp.sum(stretch**2) + 0.25 * xp.sum(stretch**4) + xp.sum(xp.cosh(x))


def ising_mean_field(xp, x):
    m = xp.tanh(x)
    coupling = -0.5 * xp.sum(m * xp.roll(m, 1))
    return coupling - xp.sum(xp.entr((1 + m) / 2) + xp.entr((1 - m) / 2))


def heat_step(xp, x):
    for _ in range(4):
        inner = x[1:-1] + 0.2 * (x[2:] - 2 * x[1:-1] + x[:-2])
        x = xp.concatenate([x[:1], inner, x[-1:]])
    return x


def wave_spectrum(xp, x):
    spectrum = xp.fft.rfft(x)
    return xp.sum(xp.abs(spectrum) ** 2 * np.arange(4.0)) / xp.sum(x**2)


def newton_root(xp, x):
    root = xp.ones_like(x)
    for _ in range(6):
        root = 0.5 * (root + (1 + x**2) / root)
    return root


def fixed_point_branch(xp, x):
    # the path is the same at all points near this one, so JAX may follow the constant choice
    total = x[0]
    for step in range(4):
        total = xp.sin(total) + x[1] if step % 2 else total * x[2] + x[3]
    return total


def horner(xp, x):
    result = 0.0
    for coefficient in (2.0, -1.0, 0.5, 3.0):
        result = result * x + coefficient
    return result


def continued_fraction(xp, x):
    result = 1.0
    for k in range(6, 0, -1):
        result = k + x**2 / result
    return x / result


def black_scholes(xp, x):
    spot, volatility, rate, time = xp.exp(x[0]), xp.exp(x[1]), 0.1 * x[2], 1.5
    d1 = (xp.log(spot) + (rate + volatility**2 / 2) * time) / (volatility * np.sqrt(time))
    d2 = d1 - volatility * np.sqrt(time)
    return spot * xp.ndtr(d1) - xp.exp(-rate * time) * xp.ndtr(d2)


def portfolio(xp, x):
    weights = xp.softmax(x, axis=-1)
    covariance = np.array([[2.0, 0.3, 0.1, 0], [0.3, 1, 0, 0.2], [0.1, 0, 3, 0], [0, 0.2, 0, 1]])
    return xp.dot(weights, V) / xp.sqrt(weights @ covariance @ weights)


def cosine_similarity(xp, x):
    rows = x.reshape(2, 3)
    unit = rows / xp.linalg.norm(rows, axis=1, keepdims=True)
    return (unit @ unit.T)[0, 1]


def contrastive(xp, x):
    rows = FEATURES[:3] @ x.reshape(2, 2)
    similarity = rows @ rows.T / 0.5
    return -xp.sum(xp.diag(xp.log_softmax(similarity, axis=1)))


def soft_dtw(xp, x):
    cost = (x[:, None] - V[None, :3]) ** 2
    row = [cost[0, 0]]
    for j in (1, 2):
        row.append(row[-1] + cost[0, j])
    for i in range(1, 4):
        new = [row[0] + cost[i, 0]]
        for j in (1, 2):
            paths = xp.stack([row[j], row[j - 1], new[-1]])
            new.append(cost[i, j] - xp.logsumexp(-paths))
        row = new
    return row[-1]


def hidden_markov(xp, x):
    transition = xp.log_softmax(x.reshape(2, 2), axis=1)
    state = xp.log_softmax(x[:2], axis=-1)
    for label in LABELS:
        emission = -0.5 * (x[2:] - label) ** 2
        state = xp.logsumexp(state[:, None] + transition, axis=0) + emission
    return xp.logsumexp(state)


def wasserstein(xp, x):
    return xp.sum((xp.sort(x) - np.sort(V)) ** 2) ** 0.5


def sinkhorn(xp, x):
    kernel = xp.exp(-((x[:, None] - V[None, :3]) ** 2))
    right = xp.ones(3)
    for _ in range(4):
        left = 0.25 / (kernel @ right)
        right = (1 / 3) / (kernel.T @ left)
    return xp.sum(left[:, None] * kernel * right * (x[:, None] - V[None, :3]) ** 2)


def quaternion_rotation(xp, x):
    unit = x / xp.sqrt(xp.sum(x**2))
    axis, vector = unit[1:], np.array([1.0, 2.0, 3.0])
    turn = 2 * xp.cross(axis, vector)
    return vector + unit[0] * turn + xp.cross(axis, turn)


def bezier(xp, x):
    points = x.reshape(3, 2)
    basis = xp.stack([(1 - T) ** 2, 2 * T * (1 - T), T**2], axis=1)
    return xp.sum(xp.linalg.norm(xp.diff(basis @ points, axis=0), axis=1))


def convolution_net(xp, x):
    image = np.cos(np.arange(16.0)).reshape(1, 1, 4, 4)
    hidden = xp.relu(xp.conv(image, x.reshape(1, 1, 2, 2)))
    return xp.sum(xp.avg_pool(hidden, 2) ** 2)


def vae_bound(xp, x):
    mean, log_variance = x[:2], x[2:]
    sample = mean + xp.exp(0.5 * log_variance) * np.array([0.3, -1.1])
    divergence = -0.5 * xp.sum(1 + log_variance - mean**2 - xp.exp(log_variance))
    return divergence - xp.sum(xp.log_sigmoid(sample))


def matrix_square_root(xp, x):
    m = x.reshape(2, 2)
    m = m @ m.T + np.eye(2)
    y, z = m, xp.eye(2)
    for _ in range(5):
        y, z = 0.5 * (y + xp.linalg.inv(z)), 0.5 * (z + xp.linalg.inv(y))
    return y


def total_variation(xp, x):
    image = x.reshape(2, 3)
    across, down = image[:-1, 1:] - image[:-1, :-1], image[1:, :-1] - image[:-1, :-1]
    return xp.sum(xp.sqrt(across**2 + down**2 + 1e-3))


CASES = {
    "rosenbrock": (rosenbrock, V),
    "rastrigin": (rastrigin, V),
    "ackley": (ackley, V),
    "normal_likelihood": (normal_likelihood, V),
    "student_likelihood": (student_likelihood, V),
    "poisson_regression": (poisson_regression, V),
    "beta_likelihood": (beta_likelihood, V),
    "dirichlet": (dirichlet, V),
    "mixture": (mixture, V),
    "logistic_regression": (logistic_regression, V),
    "softmax_regression": (softmax_regression, S),
    "probit": (probit, V),
    "ridge": (ridge, V),
    "huber": (huber, V),
    "mlp": (mlp, S),
    "mlp_relu": (mlp_relu, S),
    "attention": (attention, V),
    "causal_attention": (causal_attention, V),
    "layer_norm": (layer_norm, S),
    "batch_norm": (batch_norm, V),
    "recurrent": (recurrent, S),
    "gru_cell": (gru_cell, V),
    "kalman": (kalman, V),
    "kalman_matrix": (kalman_matrix, V),
    "gaussian_process": (gaussian_process, V),
    "gaussian_process_slogdet": (gaussian_process_slogdet, V),
    "multivariate_normal": (multivariate_normal, V),
    "bayesian_linear": (bayesian_linear, V),
    "euler_step": (euler_step, V[:2]),
    "runge_kutta": (runge_kutta, P),
    "leapfrog": (leapfrog, V),
    "lennard_jones": (lennard_jones, S),
    "coulomb": (coulomb, S),
    "double_pendulum": (double_pendulum, V),
    "spring_chain": (spring_chain, V),
    "ising_mean_field": (ising_mean_field, V),
    "heat_step": (heat_step, S),
    "wave_spectrum": (wave_spectrum, S),
    "newton_root": (newton_root, V),
    "fixed_point_branch": (fixed_point_branch, V),
    "horner": (horner, V),
    "continued_fraction": (continued_fraction, V),
    "black_scholes": (black_scholes, V),
    "portfolio": (portfolio, V),
    "cosine_similarity": (cosine_similarity, S),
    "contrastive": (contrastive, V),
    "soft_dtw": (soft_dtw, V),
    "hidden_markov": (hidden_markov, V),
    "wasserstein": (wasserstein, P),
    "sinkhorn": (sinkhorn, V),
    "quaternion_rotation": (quaternion_rotation, V),
    "bezier": (bezier, S),
    "convolution_net": (convolution_net, V),
    "vae_bound": (vae_bound, V),
    "matrix_square_root": (matrix_square_root, V),
    "total_variation": (total_variation, S),
}
