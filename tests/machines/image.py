"""image.py KERNEL OUT: the kernel as qemu takes it, out of what distributions wrap it in.

Ubuntu's kernels for arm64 stand in the section `.linux` of an EFI program, and that is an
EFI program itself, which unpacks the kernel (`zimg`; the kernel's
drivers/firmware/efi/libstub/zboot-header.S). Any other file is left as it is.
"""

import gzip
import struct
import subprocess
import sys


def section(program, wanted):
    """The contents of this section of a PE program; None without it."""
    (header,) = struct.unpack_from("<I", program, 0x3C)
    if program[:2] != b"MZ" or program[header : header + 4] != b"PE\0\0":
        return None
    (count,) = struct.unpack_from("<H", program, header + 6)
    (optional,) = struct.unpack_from("<H", program, header + 20)
    for each in range(count):
        at = header + 24 + optional + 40 * each
        if program[at : at + 8].rstrip(b"\0") == wanted:
            size, _, _, start = struct.unpack_from("<4I", program, at + 8)
            return program[start : start + size]
    return None


def unpacked(program):
    """The kernel that this EFI program unpacks; the program itself if it is another one."""
    if program[4:8] != b"zimg":
        return program
    start, size = struct.unpack_from("<2I", program, 8)
    packed, method = program[start : start + size], program[24:56].rstrip(b"\0").decode()
    if method == "gzip":
        return gzip.decompress(packed)
    if method.startswith("zstd"):
        return subprocess.run(["zstd", "-dcq"], input=packed, stdout=subprocess.PIPE, check=True).stdout
    sys.exit(f"image.py: {sys.argv[1]} is packed by {method}, which is not known here")


with open(sys.argv[1], "rb") as file:
    kernel = file.read()
with open(sys.argv[2], "wb") as file:
    file.write(unpacked(section(kernel, b".linux") or kernel))
