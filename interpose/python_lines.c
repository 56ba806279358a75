/* python_lines.c -- CPython's line tables and strings, decoded without its help.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads:    pure functions over memory that does not change while its code object lives.
 * PyCode_Addr2Line would not do: it consults an array that tracing, switched on by another thread,
 * publishes before it is filled.
 */
#include "interpose/python_layout.h"

/* To 3.9: pairs (bytes of code, signed lines), in the order of the code. */
static int line_in_lnotab(struct vg_python_view table, int line, int32_t lasti)
{
    int32_t addr = 0;
    for (uint64_t i = 0; i + 1 < table.length; i += 2) {
        addr += table.data[i];
        if (addr > lasti)
            break;
        line += (int8_t)table.data[i + 1];
    }
    return line;
}

/* 3.10: pairs (bytes of code, signed lines), each a range of its own; -128 marks a range without a
 * line. */
static int line_in_ranges(struct vg_python_view table, int line, int32_t lasti)
{
    int32_t end = 0;
    for (uint64_t i = 0; i + 1 < table.length; i += 2) {
        int delta = (int8_t)table.data[i + 1];
        end += table.data[i];
        if (delta != -128)
            line += delta;
        if (lasti < end)
            return delta == -128 ? -1 : line;
    }
    return -1;
}

/* Six bits per byte, least significant first, bit 6: more follow; the sign is in bit 0 of the
 * value. */
static int signed_varint(struct vg_python_view table, uint64_t at)
{
    uint32_t value = 0;
    for (unsigned shift = 0; at < table.length && shift < 32; at++, shift += 6) {
        value |= (uint32_t)(table.data[at] & 63) << shift;
        if (!(table.data[at] & 64))
            break;
    }
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

/* From 3.11: entries that start with 1cccclll: l + 1 code units, and a kind c that says where the
 * line change is. */
static int line_in_locations(struct vg_python_view table, int line, int32_t lasti)
{
    enum { ONE_LINE_0 = 10, ONE_LINE_2 = 12, NO_COLUMNS = 13, LONG = 14, NO_LINE = 15 };
    int32_t end = 0;
    for (uint64_t i = 0; i < table.length;) {
        int kind = table.data[i] >> 3 & 15;
        if (kind == NO_COLUMNS || kind == LONG)
            line += signed_varint(table, i + 1);
        else if (kind >= ONE_LINE_0 && kind <= ONE_LINE_2)
            line += kind - ONE_LINE_0;
        end += 2 * ((table.data[i] & 7) + 1);
        if (lasti < end)
            return kind == NO_LINE ? -1 : line;
        do
            i++;
        while (i < table.length && !(table.data[i] & 128));
    }
    return -1;
}

int vg_python_line(enum vg_python_lines format, struct vg_python_view table, int firstlineno,
                   int32_t lasti)
{
    if (lasti < 0)
        return firstlineno;
    switch (format) {
    case VG_PYTHON_LNOTAB:
        return line_in_lnotab(table, firstlineno, lasti);
    case VG_PYTHON_RANGES:
        return line_in_ranges(table, firstlineno, lasti);
    case VG_PYTHON_LOCATIONS:
        return line_in_locations(table, firstlineno, lasti);
    }
    return -1;
}

static uint32_t character(struct vg_python_view text, uint64_t i)
{
    uint16_t two;
    uint32_t four;
    switch (text.unit) {
    case 1:
        return text.data[i];
    case 2:
        memcpy(&two, text.data + 2 * i, sizeof two);
        return two;
    default:
        memcpy(&four, text.data + 4 * i, sizeof four);
        return four;
    }
}

static size_t encode(uint32_t c, char out[4])
{
    static const unsigned char first[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 63));
    out[0] = (char)(first[size] | c);
    return size;
}

bool vg_python_utf8(struct vg_python_view text, char *out, size_t size)
{
    size_t used = 0;
    if (size == 0)
        return false;
    out[0] = 0;
    if (!text.data || (text.unit != 1 && text.unit != 2 && text.unit != 4))
        return false;
    for (uint64_t i = 0; i < text.length; i++) {
        char bytes[4];
        uint32_t c = character(text, i);
        size_t count = encode(c > 0x10ffff ? 0xfffd : c ? c : '?', bytes);
        if (used + count >= size)
            break;
        memcpy(out + used, bytes, count);
        used += count;
    }
    out[used] = 0;
    return true;
}
