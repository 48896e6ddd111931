"""The page of code that the kernel lends to each process: clocks are read from it without a system call."""

import struct


def functions_of(read):
    """Where the functions of a 64-bit ELF image are, as name -> (offset, size), and the image's size.

    Args:
        read: Gives `n` bytes at an offset from the image's start.
    """
    (header,), (width, count) = struct.unpack("<Q", read(32, 8)), struct.unpack("<HH", read(54, 4))
    tables = [struct.unpack("<IIQQQQQQ", read(header + width * n, 56)) for n in range(count)]
    first = next(table for table in tables if table[0] == 1)  # PT_LOAD: kind flags offset address ...
    base, size = first[3] - first[2], first[6]
    dynamic = next(table for table in tables if table[0] == 2)  # PT_DYNAMIC
    tags = dict(struct.iter_unpack("<QQ", read(dynamic[2], dynamic[6])))
    names, symbols = tags[5] - base, tags[6] - base  # DT_STRTAB, DT_SYMTAB
    text = read(names, tags[10])  # DT_STRSZ
    if 4 in tags:  # DT_HASH: its second word is the number of symbols
        (symbols_count,) = struct.unpack("<I", read(tags[4] - base + 4, 4))
    else:
        symbols_count = abs(names - symbols) // 24
    places = {}
    for n in range(symbols_count):
        name, info, _other, section, value, room = struct.unpack("<IBBHQQ", read(symbols + 24 * n, 24))
        if section and info & 15 == 2 and name < len(text):  # a defined function
            places[text[name : text.index(b"\0", name)].decode()] = value - base, room
    return places, size


def clock_code(x86, seconds):
    """Machine code for the vDSO's functions that looks at nothing.

    Args:
        x86: For x86-64, else for ARM64.
        seconds: What wall clocks tell, in seconds since 1970; the others tell 1000.
    """
    if x86:
        wall, other = struct.pack("<I", seconds), struct.pack("<I", 1000)
        times = b"\x48\xc7\x46\x08\0\0\0\0\x31\xc0\xc3"  # mov qword [rsi+8], 0; xor eax, eax; ret
        gettime = b"\xb8" + wall + b"\x85\xff\x74\x0f\x83\xff\x05\x74\x0a\x83\xff\x0b\x74\x05\xb8" + other
        gettime += b"\x48\x89\x06" + times  # mov eax, wall; unless edi is 0, 5 or 11: mov eax, other
        day = b"\x48\x85\xff\x74\x10\xb8" + wall + b"\x48\x89\x07\x48\xc7\x47\x08\0\0\0\0\x31\xc0\xc3"
        second = b"\xb8" + wall + b"\x48\x85\xff\x74\x03\x48\x89\x07\xc3"
        cpu = b"\x31\xc0\x48\x85\xff\x74\x02\x89\x07\x48\x85\xf6\x74\x02\x89\x06\xc3"
        absent = b"\x48\xc7\xc0\xda\xff\xff\xff\xc3"  # mov rax, -38; ret
        return {
            "__vdso_clock_gettime": gettime,
            "__vdso_gettimeofday": day,
            "__vdso_time": second,
            "__vdso_getcpu": cpu,
            "__vdso_getrandom": absent,
        }

    def moved(value):  # movz x2, low; movk x2, high, lsl 16
        return struct.pack("<II", 0xD2800002 | (value & 0xFFFF) << 5, 0xF2A00002 | (value >> 16) << 5)

    words = (0x34000100, 0x7100141F, 0x540000C0, 0x71002C1F, 0x54000080)  # to `wall` where w0 is 0, 5 or 11
    gettime = struct.pack("<5I", *words) + moved(1000) + struct.pack("<I", 0x14000003) + moved(seconds)
    end = struct.pack("<2I", 0x52800000, 0xD65F03C0)  # mov w0, 0; ret
    day = struct.pack("<I", 0xB4000080) + moved(seconds) + struct.pack("<I", 0xA9007C02) + end
    return {
        "__kernel_clock_gettime": gettime + struct.pack("<I", 0xA9007C22) + end,  # stp x2, xzr, [x1]
        "__kernel_gettimeofday": day,
        "__kernel_getrandom": struct.pack("<2I", 0x928004A0, 0xD65F03C0),
    }
