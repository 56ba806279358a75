/* elf_symbols.h -- one object file on disk.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Its function symbols, sorted once, and its lines where it has debug information.
 *
 * Place:   symbolize.c -> here -> libelf, libdw. Addresses are those of the file (what the record
 *          calls an offset).
 */
#ifndef VG_ELF_SYMBOLS_H
#define VG_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vg_elf_symbol {
    uint64_t address, bytes; /* bytes 0: up to the next symbol */
    const char *name;        /* as the linker has it */
};

/* One frame that a return address stands for. */
struct vg_elf_line {
    char *function; /* plain name, to be freed; NULL unknown */
    const char *file;
    int line; /* 0 unknown */
};

struct vg_elf;

/* The file at path if it is the object that was mapped: same build id, or, where both have none,
 * not modified after `mapped_ns` (real time). NULL otherwise, and for anything that is not a
 * regular ELF file. */
struct vg_elf *vg_elf_open(const char *path, const uint8_t *build_id, size_t build_id_bytes,
                           uint64_t mapped_ns);
void vg_elf_close(struct vg_elf *elf);

/* The function that contains the address, or NULL. */
const struct vg_elf_symbol *vg_elf_function(struct vg_elf *elf, uint64_t address);

/* The lines of an address: inlined functions innermost first, the real function last. Returns how
 * many were written; 0 without debug information. */
unsigned vg_elf_lines(struct vg_elf *elf, uint64_t address, struct vg_elf_line *out, unsigned max);

#endif
