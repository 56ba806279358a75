/* elf_lines.c -- file, line and inlined functions of an address.
 * SPDX-License-Identifier: Apache-2.0
 *
 * From an object's debug information.
 *
 * Place:      elf_symbols.c opened and proved the files; here libdw reads them. libdwfl is not
 *             used: it looks for debug files by itself, on the network too, and walks a whole
 *             symbol table at each look-up.
 */
#include "tools/elf_internal.h"

#include <dwarf.h>
#include <stdlib.h>

#include "tools/alloc.h"
#include "tools/symbolize.h"

static bool has_debug_info(Elf *object)
{
    size_t names;
    if (!object || elf_getshdrstrndx(object, &names))
        return false;
    for (Elf_Scn *scan = elf_nextscn(object, NULL); scan; scan = elf_nextscn(object, scan)) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(scan, &header) ? elf_strptr(object, names, header.sh_name) : NULL;
        if (name && (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info")))
            return header.sh_type != SHT_NOBITS;
    }
    return false;
}

static void open_dwarf(struct vg_elf *elf)
{
    elf->dwarf_tried = true;
    Elf *object = has_debug_info(elf->elf) ? elf->elf : elf->debug_elf;
    if (has_debug_info(object))
        elf->dwarf = dwarf_begin_elf(object, DWARF_C_READ, NULL);
}

void vg_elf_lines_close(struct vg_elf *elf)
{
    free(elf->ranges);
    dwarf_end(elf->dwarf);
}

/* --- which compilation unit ------------------------------------------------------------------- */

static int by_low(const void *a, const void *b)
{
    const struct vg_elf_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* clang writes no .debug_aranges: the units' own ranges are indexed once. */
static void read_ranges(struct vg_elf *elf)
{
    elf->ranges_read = true;
    size_t room = 0, header_bytes;
    Dwarf_Off at = 0, next;
    while (!dwarf_nextcu(elf->dwarf, at, &next, &header_bytes, NULL, NULL, NULL)) {
        Dwarf_Die unit;
        Dwarf_Addr base, low, high;
        ptrdiff_t step = 0;
        bool is_unit = dwarf_offdie(elf->dwarf, at + header_bytes, &unit);
        while (is_unit && (step = dwarf_ranges(&unit, step, &base, &low, &high)) > 0) {
            if (elf->range_count == room) {
                room = room ? room * 2 : 64;
                elf->ranges = vg_realloc(elf->ranges, room, sizeof(*elf->ranges));
            }
            elf->ranges[elf->range_count++] =
                (struct vg_elf_range){low, high, dwarf_dieoffset(&unit)};
        }
        at = next;
    }
    if (elf->range_count)
        qsort(elf->ranges, elf->range_count, sizeof(*elf->ranges), by_low);
}

static bool find_unit(struct vg_elf *elf, uint64_t address, Dwarf_Die *unit_out)
{
    if (dwarf_addrdie(elf->dwarf, address, unit_out))
        return true;
    if (!elf->ranges_read)
        read_ranges(elf);
    size_t low = 0, high = elf->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (elf->ranges[middle].low <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < elf->ranges[low - 1].high &&
           dwarf_offdie(elf->dwarf, elf->ranges[low - 1].unit, unit_out);
}

/* --- lines and scopes ------------------------------------------------------------------------- */

static char *die_function(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *linkage = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        linkage = dwarf_formstring(&attribute);
    if (linkage)
        return vg_symbols_plain_name(linkage);
    const char *name = dwarf_diename(die);
    return name ? vg_copy(name) : NULL;
}

static Dwarf_Word die_number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value))
        return 0;
    return value;
}

/* Where an inlined function was called from. */
static void call_position(Dwarf_Die *unit, Dwarf_Die *inlined, const char **file_out, int *line_out)
{
    Dwarf_Files *files;
    size_t count;
    Dwarf_Word file = die_number(inlined, DW_AT_call_file);
    *line_out = (int)die_number(inlined, DW_AT_call_line);
    *file_out = NULL;
    if (!dwarf_getsrcfiles(unit, &files, &count) && file < count)
        *file_out = dwarf_filesrc(files, file, NULL, NULL);
}

unsigned vg_elf_lines(struct vg_elf *elf, uint64_t address, struct vg_elf_line *out, unsigned max)
{
    if (!elf->dwarf_tried)
        open_dwarf(elf);
    Dwarf_Die unit;
    if (!elf->dwarf || !max || !find_unit(elf, address, &unit))
        return 0;
    const char *file = NULL;
    int line = 0;
    Dwarf_Line *row = dwarf_getsrc_die(&unit, address);
    if (row && !dwarf_lineno(row, &line))
        file = dwarf_linesrc(row, NULL, NULL);

    /* The scopes of an address leave the tree at an inlined function (they go on in its abstract
     * definition); those of the innermost DIE do not. */
    Dwarf_Die *inner = NULL, *scopes = NULL;
    int count = dwarf_getscopes(&unit, address, &inner);
    count = count > 0 ? dwarf_getscopes_die(&inner[0], &scopes) : 0;
    unsigned made = 0;
    for (int i = 0; i < count && made < max; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        out[made++] = (struct vg_elf_line){die_function(&scopes[i]), file, line};
        if (tag == DW_TAG_subprogram)
            break;
        call_position(&unit, &scopes[i], &file, &line);
    }
    if (!made && file)
        out[made++] = (struct vg_elf_line){NULL, file, line};
    free(inner);
    free(scopes);
    return made;
}
