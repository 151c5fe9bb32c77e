"""Loops to LLVM to callable: the only folder that imports llvmlite."""
