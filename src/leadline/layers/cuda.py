"""CUDA C++ of this package, compiled when it is first needed: by NVRTC, which comes with torch, so no toolkit is asked
for."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_HERE = Path(__file__).parent
_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PROGRAMMATIC = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


@functools.cache
def can_compile(device: torch.device) -> bool:
    """Whether there are a driver, and a compiler that knows the device."""
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    try:
        _driver()
        return _known(_compiler(), torch.cuda.get_device_capability(device))
    except OSError:
        return False


def _known(rtc: Any, capability: tuple[int, int]) -> bool:
    count = ctypes.c_int()
    rtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    archs = (ctypes.c_int * count.value)()
    rtc.nvrtcGetSupportedArchs(archs)
    return 10 * capability[0] + capability[1] in archs


class Kernel:
    """One function of a file beside this one.

    Args:
        file: its name.
        function: declared extern "C".
        sizes: numbers that its text leaves open, by name; a kernel is compiled for each set of them.
        device: that it runs on.
        shared: bytes of shared memory that a program asks for besides what its text declares.
    """

    def __init__(self, file: str, function: str, sizes: dict[str, int | float], device: torch.device, shared: int = 0):
        self.shared, self.device = shared, device
        with torch.cuda.device(device):
            self.handle = _function(file, function, tuple(sizes.items()), torch.cuda.current_device())
            _check(_driver().cuFuncSetAttribute(self.handle, _SHARED, shared))

    def __call__(self, programs: int, threads: int, *args: Tensor | int, early: bool = False) -> None:
        """Launch it on the current stream; a whole number is passed as an int.

        Args:
            early: it may start while the kernel before it still runs, for it waits inside.
        """
        held = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, Tensor) else ctypes.c_int(a) for a in args]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(a) for a in held))
        attributes = (_Attribute * early)(*[_Attribute(_PROGRAMMATIC, value=1)] * early)
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream().cuda_stream
            launch = _Launch((programs, 1, 1), (threads, 1, 1), self.shared, stream, attributes, early)
            _check(_driver().cuLaunchKernelEx(ctypes.byref(launch), self.handle, pointers, None))


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute, with a value that is a whole number."""

    _fields_ = [("name", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15)]


class _Launch(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


@functools.cache
def _function(file: str, name: str, sizes: tuple[tuple[str, int | float], ...], device: int) -> Any:
    torch.cuda.current_stream().synchronize()  # and with it, a context
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(_driver().cuModuleLoadData(ctypes.byref(module), _compiled(file, sizes, device)))
    _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    return function


def _compiled(file: str, sizes: tuple[tuple[str, int | float], ...], device: int) -> bytes:
    """Machine code of a file."""
    rtc, program = _compiler(), ctypes.c_void_p()
    text = (_HERE / file).read_bytes()
    major, minor = torch.cuda.get_device_capability(device)
    given = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17", f"-I{_HERE}"]
    given += [f"-D{name}={_number(x)}" for name, x in sizes]
    options = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    rtc.nvrtcCreateProgram(ctypes.byref(program), text, file.encode(), 0, None, None)
    try:
        failed = rtc.nvrtcCompileProgram(program, len(given), options)
        if failed:
            said = _filled(rtc.nvrtcGetProgramLogSize, rtc.nvrtcGetProgramLog, program)
            raise RuntimeError(f"{file} does not compile: {said.decode(errors='replace')}")
        return _filled(rtc.nvrtcGetCUBINSize, rtc.nvrtcGetCUBIN, program)
    finally:
        rtc.nvrtcDestroyProgram(ctypes.byref(program))


def _number(x: int | float) -> str:
    return f"{x!r}f" if isinstance(x, float) else str(x)


def _filled(size: Any, fill: Any, program: ctypes.c_void_p) -> bytes:
    count = ctypes.c_size_t()
    size(program, ctypes.byref(count))
    found = ctypes.create_string_buffer(count.value)
    fill(program, found)
    return found.raw


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def _compiler() -> Any:
    """NVRTC, where torch has loaded it, where the system finds it, or where packages put it."""
    name = f"libnvrtc.so.{str(torch.version.cuda).split('.')[0]}"
    try:
        return ctypes.CDLL(name)
    except OSError:
        package = importlib.util.find_spec("nvidia")
        for folder in [] if package is None else package.submodule_search_locations or []:
            for path in sorted(Path(folder).glob(f"**/{name}*")):
                return ctypes.CDLL(str(path))
        raise


def _check(code: int) -> None:
    if code:
        said = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(said))
        raise RuntimeError(f"CUDA: {(said.value or b'error').decode()} ({code})")
