"""What random programs with containers are made of: texts with names for what is chosen.

`$number` stands for one of `NUMBERS`, `$value` for a traced number of moderate size, `$index` for a
place in any container of five items, `$test` for a condition; the same name with a digit, such as
`$index1`, is the same choice wherever it stands in a text. A text can be used in a program that has
all containers which it names: these are the capital letters and those of `CONTAINERS`.
"""

HEAD = """import copy
from collections import deque

class Held:
    def __init__(self, v, l):
        self.v = v
        self.l = l

    def total(self):
        return self.v + sum(self.l)

    def push(self, i, v):
        self.l[i] = v
        self.v = self.v * 0.5 + v
        return self.l[i - 1]

    def take(self, l):
        self.l = l
        return self

def bumped(q, i, v):
    q[i] += v
    return q[i - 1]

def turned(q):
    q[0], q[-1] = q[-1], q[0]
    return q

def renewed(q, v):
    q = [u * 0.5 for u in q]
    q[0] = v
    return q

def moved_up(q, v):
    q.append(v)
    return q.pop(0)

def shifted(a, v):
    a[1:] += v
    return a

def halves(q):
    for u in q:
        yield u * 0.5

"""

# how each container begins, and how it becomes a number
CONTAINERS = {
    "L": ("[0.5, x[0], 1.0, x[1], 0.2]", "2 * sum(L)"),
    "P": ("[0.0] * 5", "sum(P) * 0.6"),
    "R": ("[1.0, 0.5, x[2], 0.25, 0.75]", "sum(R) * 0.35 + R[0]"),
    "D": (
        "[[0.1 * a + 0.01 * b for b in range(5)] for a in range(5)]",
        "sum(sum(q) * (0.5 + 0.1 * i) for i, q in enumerate(D))",
    ),
    "row": ("D[1]", "sum(row) * 0.3 + row[1]"),
    "best": ("D[2]", "sum(best) * 0.15"),
    "E": ("[D[0], D[1]]", "sum(E[0]) * 0.7 + E[-1][2]"),
    "Q": ("deque([0.0, x[2], 1.0], maxlen=3)", "3 * sum(Q) + Q[0]"),
    "G": ("[]", "sum(G) * 0.4 + len(G)"),
    "d": ("{'a': [0.1, 0.2, x[3], 0.4, 0.5], 'b': 0.0}", "sum(d['a']) + d['b'] + len(d)"),
    "N": ("{'p': x[1], 'q': 0.5, 'r': 1.0}", "sum(N.values()) * 0.8 + len(N) + N['p']"),
    "o": ("Held(x[4], [1.0, 2.0, 3.0, 4.0, x[0]])", "o.total() + o.l[1]"),
    "t": ("Held(0.5, o.l)", "t.total() * 0.45"),
    "O": ("[o, t]", "O[0].total() * 0.65 + O[-1].v"),
    "A": ("np.zeros(5)", "A.sum() * 0.2 + A[1]"),
    "B": ("np.ones(5) * x[0]", "B.sum() * 0.25 + B[2]"),
    "M": ("np.ones((5, 5))", "(M * np.arange(25.0).reshape(5, 5)).sum() * 0.01"),
    "r": ("M[1]", "r.sum() * 0.3 + r[0]"),
    "H": ("[np.full(5, 0.5), x * 0.5, np.zeros(5)]", "sum((h * h).sum() for h in H) * 0.3"),
    "S": ("{1, 3}", "len(S) + sum(S) * 0.1"),
    "T": ("([0.5, x[3], 0.25, 1.0, 0.1], 0.5)", "sum(T[0]) * 0.55 + T[1]"),
}
# containers that are found together; those of each group may be aliases of each other
GROUPS = [
    ["L", "P", "R"], ["D", "row", "best", "E"], ["Q"], ["G"], ["d"], ["N"], ["o", "t"], ["A", "B"],
    ["M", "r"], ["H"], ["S"], ["T"], ["D", "row"], ["L"], ["L", "o"], ["A", "M", "r"],
    ["o", "t", "O"], ["d", "L", "o"], ["D", "row", "o"], ["A", "H"], ["d", "D"],
]  # fmt: skip

NUMBERS = """
x[$index]
$float
s
s * 0.5
last
k * 0.1
float(j)
abs($number)
(0.5 if $test else $number)
L[$index]
max(L)
min(L)
L[-1]
len(L) * 0.1
sum(L[1:3])
sum(u for u in L if u > 0.2)
sum(u * w for u, w in zip(L, P))
sum(u * i for i, u in enumerate(L))
sum(halves(L))
sorted(L)[2]
bumped(L, $index, $float)
R[$index]
P[$index]
D[$index][$index]
sum(D[$index])
D[$index][$index] * L[$index]
max(q[1] for q in D)
row[$index]
sum(row[::2])
best[$index]
E[0][$index]
E[-1][$index]
Q[$near]
max(Q)
len(G) * 0.1
sum(G)
(G[-1] if G else 0.5)
d['a'][$index]
d['b']
d.get('b', 0.5)
d.get('c', 0.25)
N['p']
N[$key]
N.get('w', 0.5)
sum(N.values())
sum(u for _, u in N.items())
o.v
o.l[$index]
o.total()
o.push($index, $float)
t.l[$index]
t.v
A[$index]
A.sum()
np.max(A)
B[$index]
A @ B
(A * B)[$index]
M[$index, $index]
M[$index] @ A
M.T[$index][$index]
r[$index]
r @ x
H[0][$index]
H[$near][$index]
H[$near].sum()
len(S) * 0.1
(0.5 if 2 in S else 0.25)
T[1]
T[0][$index]
O[$bit].v
O[$bit].l[$index]
sum(q.v for q in O)
""".strip().splitlines()

VALUES = """
np.tanh($number + $number)
np.tanh($number * $number)
np.tanh($number)
np.sin($number) * 0.5
""".strip().splitlines()

TESTS = """
$number > $number
$number > 0.3
$number < 1.0 and $number > -1
-1 < $number < 0.75
not $number > 0.4
$number < 0.1 or $number > 0.6
k == j
k > 1
k in (1, 2)
row is D[$index]
row is not best
o is t
O[0] is not o
A is B
r is A
L is P
d['a'] is L
'w' in N
len(G) > 2
2 in S
any(u > 0.9 for u in L)
all(u < 1.2 for u in row)
sum(A) > 0.5
""".strip().splitlines()

LINES = """
s = s * 0.9 + $value
s += $value
s, last = last, s * 0.5
last = $value
k = int(np.argmin(x * s))
k = (k + 1) % 5
k += 1; k %= 5
j = int(abs($value) * 3.9)
j, k = k, j
s = s + (w := $value) * w
L[$index] = $value
L[$index] += $value
L[$index1], L[$index2] = L[$index2], L[$index1]
L = [u * 0.9 + 0.01 for u in L]
L = L[1:] + [$value]
L[:] = [u * 0.8 for u in L]
L[1:3] = [$value, $value]
L.sort()
L.reverse()
L.insert(0, L.pop())
L.insert($index, $value); L.pop()
del L[0]; L.append($value)
L.extend([$value]); L.pop(1)
L = list(reversed(L))
L = sorted(L)
L = [u if u > 0.2 else $number for u in L]
L = [u + i * 0.1 for i, u in enumerate(L)]
L = L.copy()
k = int(np.argmax(np.array(L)))
k = max(range(5), key=lambda i: L[i])
last = moved_up(L, $value)
L = turned(L)
turned(L)
L = renewed(L, $value)
P = L
P = L[:]
R = L
R = list(L)
P, R = R, P
L, R = R, L
P[$index] = $value
P[$index] *= 0.5
R[$index] = L[$index]
P = [u + w for u, w in zip(L, R)]
D[$index][$index] = $value
D[$index][$index] += $value
D[$index1], D[$index2] = D[$index2], D[$index1]
D[$index] = [$value, 1.0, $number, s, 0.5]
D[$index] = L
D[$index] = D[$index]
D[$index] = list(D[$index])
D[$index] = row
D = [q[:] for q in D]
D = D[1:] + [D[0]]
D = copy.deepcopy(D)
D = list(D)
D[$index][1:3] = [$value, 0.5]
D.append(D.pop(0))
D.insert(0, D.pop())
D[$index].reverse()
D.sort(key=lambda q: q[1])
D[$index] = [u * 0.5 for u in D[$index]]
D[0][$index], D[1][$index] = D[1][$index], D[0][$index]
L = D[$index]
row = D[$index]
row = list(D[$index])
row[$index] = $value
row[$index] += $value
row = L
row = E[$bit]
best = max(D, key=lambda q: q[0])
best = row
best[$index] = $value
E = [D[$index], D[$index]]
E[0][$index] = $value
E[$bit] = D[$index]
E = E[::-1]
E[0] = row
E = [list(q) for q in E]
turned(D[$index])
bumped(D[$index], $index, $value)
Q.append($value)
Q.appendleft($value)
Q[$near] = $value
Q[0] += $value
Q.rotate(1)
Q.append(Q.popleft())
s = s + sum(u * w for u, w in zip(Q, L))
G.append($value)
G = []
G = G + [$value]
G.extend([$value, 0.5])
G.append(s)
s = s + (G.pop() if G else $value)
G = [u for u in G if u > 0.3]
G = [$value for _ in range(3)]
G += [0.25]
d['a'][$index] = $value
d['a'] = L
d['a'] = d['a'][:]
d['b'] = $value
d['b'] += $value
d = dict(d)
d = {'a': d['a'], 'b': $value}
d['a'], L = L, d['a']
row = d['a']
d.update(b=$value)
s = s + d.pop('b'); d['b'] = 0.5
N[$key] = $value
N[$key] += $value
N['w'] = $value
s = s + N.setdefault('p', 1.0)
s = s + N.setdefault('w', $value)
s = s + N.pop('w', 0.5)
N = {u: w * 0.9 for u, w in N.items()}
N = {**N, 'q': $value}
N['p'], N['q'] = N['q'], N['p']
o.v = $value
o.v += $value
o.l[$index] = $value
o.l = L
o.l = list(o.l)
L = o.l
o.push($index, $value)
o.take([$value] * 5)
o = o.take(o.l[:])
o, t = t, o
t = o
t = copy.copy(o)
t = copy.deepcopy(o)
t = Held($value, o.l)
t.l[$index] = $value
t.v = $value
o.l, t.l = t.l, o.l
s = s + o.take(t.l).total()
O[$bit].v = $value
O[$bit].l[$index] = $value
O[0], O[1] = O[1], O[0]
O[$bit] = t
O[0] = Held($value, O[1].l)
o = O[$bit]
O = O[::-1]
O[0].l = O[1].l
O[0].push($index, O[1].v)
last = max(O, key=lambda q: q.v).v
o.l, L = L, o.l
o.l = D[$index]
D[$index] = o.l
d['a'] = D[$index]
D[$index] = d['a']
d = {**d, 'b': $value}
d = {'a': d['a'], 'b': last}
L, d['a'] = d['a'], L
L += [$value]; L.pop(0)
row = [u * 0.9 for u in row]
D[$index], row = row, D[$index]
D = [row, *D[1:]]
G.append(L[$index])
G = [*G, last]
P = L if $test else R
row = D[0] if $test else D[$index]
A[$index] = $value
A[$index] += $value
A[1:3] *= 0.5
A[1:] += $value
A[::-1][$index] = $value
A = A + $value
A = A.copy()
A = B
A += B
A = np.array(L)
A[:] = L
A = np.where(A > 0.2, A, $value)
shifted(A, $value)
B = shifted(A, 0.1)
np.multiply(A, 0.9, out=A)
np.add(A, B, out=B)
B = A[::-1]
B = A.copy()
B[$index] = $value
B *= 0.9
A, B = B, A
A[$index1], A[$index2] = A[$index2], A[$index1]
A[[0, 2]] = $value
A[A > 0.5] *= 0.5
L = list(A)
L = A.tolist()
M[$index] = A
M[$index, $index] = $value
M[$index, $index] += $value
M[$index][$index] = $value
M.T[$index] = $value
M.T[$index][$index] += $value
M = M.T
M = M * 0.9
M = M.copy()
M[:, $index] *= 0.5
M[1:3] += $value
M[[0, 1]] = M[[1, 0]]
M[$index] += M[$index]
A = M[$index]
r = M[$index]
r = M[:, $index]
r = M[$index].copy()
r[$index] = $value
r[1] += $value
r += $value
r = r * 0.9
r = A
np.multiply(r, 0.5, out=r)
M.reshape(-1)[$index] = $value
M.fill(0.5)
H[$near][$index] = $value
H[$near] = A
H[$near] = H[$near] * 0.5
H[$near1], H[$near2] = H[$near2], H[$near1]
H = [h.copy() for h in H]
H[$near] += $value
H.append(H.pop(0))
A = H[$near]
h = H[$near]; h[$index] = $value
H[$near] = M[$index]
S.add(k)
S.discard(1)
S = S | {j}
S = {u + 1 for u in S}
S ^= {2}
T = (T[0], $value)
T[0][$index] = $value
T = (L, T[1])
L = T[0]
T = ([*T[0][1:], $value], $number)
L, last = T
""".strip().splitlines()

# `$body` is one to three more lines, `$line` is one of them; `$i` is a new counter.
BLOCKS = """
for $i in range($turns):
    $body

for $i in range($turns):
    $body

for $i in range($turns):
    $body

for $i, u$i in enumerate(L):
    $line
    s = s + u$i * 0.1
    $line

for u$i in D[$index]:
    s = s + np.tanh(u$i)
    $line

for u$i, w$i in zip(L, reversed(R)):
    P[$index] = u$i - w$i
    $line

for q$i in D:
    q$i[$index] = $value
    $line

for q$i in O:
    q$i.v = q$i.v * 0.5 + $value
    $line

for n$i, u$i in N.items():
    s = s + u$i
    $line

for $i in range($turns):
    $line
    if $test:
        break
    $line
else:
    $line

for $i in range($turns):
    $line
    if $test:
        continue
    $body

for $i in range(4, -1, -1):
    $body

if $test:
    $body

if $test:
    $body

if $test:
    $body
else:
    $line

if $test:
    $line
elif $test:
    $line
else:
    $line

if (u := $value) > 0.2:
    s = s + u
    $line

c$i = 0
while c$i < 6 and $number < 2.0:
    c$i += 1
    $body

c$i = 0
while True:
    c$i += 1
    $line
    if c$i > 4 or $test:
        break

try:
    $line
    s = s + L[9]
except IndexError:
    $line

try:
    s = s + N['z']
    $line
except KeyError:
    $line

try:
    $line
finally:
    $line

def f$i(v):
    nonlocal $names
    s = s * 0.5 + v
    $line
    return v * 0.5
last = f$i($value) + f$i($number)

def f$i(v):
    nonlocal $names
    L = [u * 0.5 for u in L]
    L[0] = v
last = $value
f$i(last)

def f$i(q, v):
    if v > 0.2:
        return q[0]
    q[1] = v
    return q[1]
s = s + f$i(L, $value)

def f$i(q, v):
    for u in q:
        if u > v:
            return u
    return v
s = s + f$i(row, $value)

f$i = [lambda v, i=i: v * i for i in range(3)]
s = s + f$i[1]($value)

def f$i(n):
    for i in range(n):
        L[i] += 0.1
        yield L[i]
s = s + sum(f$i(3))

if $test:
    return $result
""".strip().split("\n\n")
