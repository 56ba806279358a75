/* elf_symbols.c -- an object file: opened, proven to be the mapped one, its functions sorted.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Not here:   lines and inlined functions (elf_lines.c), demangling (plain_name.c).
 */
#include "tools/elf_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/alloc.h"

/* The build id of an object; 0 where it has none. */
static size_t build_id_of(Elf *elf, const void **id_out)
{
    size_t count;
    if (elf_getphdrnum(elf, &count))
        return 0;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_NOTE)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)segment.p_offset, segment.p_filesz,
                                              segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        GElf_Nhdr note;
        size_t at = 0, name, descriptor;
        while (data && (at = gelf_getnote(data, at, &note, &name, &descriptor)) > 0) {
            const char *bytes = data->d_buf;
            if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
                memcmp(bytes + name, "GNU", sizeof("GNU")))
                continue;
            *id_out = bytes + descriptor;
            return note.n_descsz;
        }
    }
    return 0;
}

/* A path of a record is untrusted: opening it may not block and only regular files count. */
static Elf *open_object(const char *path, int *fd_out, struct stat *stat_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    Elf *elf = NULL;
    if (!fstat(fd, stat_out) && S_ISREG(stat_out->st_mode))
        elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF) {
        *fd_out = fd;
        return elf;
    }
    elf_end(elf);
    close(fd);
    return NULL;
}

/* Distributions put debug information of stripped files below /usr/lib/debug, by build id. */
static void open_debug_file(struct vg_elf *elf)
{
    const void *id;
    size_t bytes = build_id_of(elf->elf, &id);
    char path[128];
    if (bytes < 2 || bytes > 32)
        return;
    int at = snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/", *(const uint8_t *)id);
    for (size_t i = 1; i < bytes; i++)
        at += snprintf(path + at, sizeof(path) - (size_t)at, "%02x", ((const uint8_t *)id)[i]);
    snprintf(path + at, sizeof(path) - (size_t)at, ".debug");
    struct stat status;
    elf->debug_elf = open_object(path, &elf->debug_fd, &status);
    const void *other;
    if (elf->debug_elf &&
        (build_id_of(elf->debug_elf, &other) != bytes || memcmp(id, other, bytes))) {
        elf_end(elf->debug_elf);
        close(elf->debug_fd);
        elf->debug_elf = NULL;
        elf->debug_fd = -1;
    }
}

struct vg_elf *vg_elf_open(const char *path, const uint8_t *build_id, size_t build_id_bytes,
                           uint64_t mapped_ns)
{
    if (path[0] != '/' || elf_version(EV_CURRENT) == EV_NONE)
        return NULL;
    struct stat status;
    int fd;
    Elf *object = open_object(path, &fd, &status);
    if (!object)
        return NULL;
    const void *id = NULL;
    size_t bytes = build_id_of(object, &id);
    uint64_t modified_ns =
        (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec;
    bool same = bytes ? bytes == build_id_bytes && !memcmp(id, build_id, bytes)
                      : !build_id_bytes && modified_ns <= mapped_ns;
    if (!same) {
        elf_end(object);
        close(fd);
        return NULL;
    }
    struct vg_elf *elf = vg_alloc(1, sizeof(*elf));
    elf->fd = fd;
    elf->elf = object;
    elf->debug_fd = -1;
    open_debug_file(elf);
    return elf;
}

void vg_elf_close(struct vg_elf *elf)
{
    if (!elf)
        return;
    vg_elf_lines_close(elf);
    free(elf->symbols);
    elf_end(elf->debug_elf);
    elf_end(elf->elf);
    if (elf->debug_fd >= 0)
        close(elf->debug_fd);
    close(elf->fd);
    free(elf);
}

/* --- symbol tables ---------------------------------------------------------------------------- */

static Elf_Scn *find_section(Elf *elf, GElf_Word type, GElf_Shdr *header_out)
{
    for (Elf_Scn *section = elf_nextscn(elf, NULL); section; section = elf_nextscn(elf, section)) {
        if (gelf_getshdr(section, header_out) && header_out->sh_type == type)
            return section;
    }
    return NULL;
}

static size_t add_table(struct vg_elf *elf, Elf *object, GElf_Word type)
{
    GElf_Shdr header;
    Elf_Scn *section = object ? find_section(object, type, &header) : NULL;
    Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
    if (!data || !header.sh_entsize)
        return 0;
    size_t count = data->d_size / header.sh_entsize, added = 0;
    elf->symbols =
        vg_realloc(elf->symbols, elf->symbol_count + count, sizeof(struct vg_elf_symbol));
    for (size_t i = 0; i < count; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF)
            continue;
        unsigned kind = GELF_ST_TYPE(symbol.st_info);
        if (kind != STT_FUNC && kind != STT_GNU_IFUNC)
            continue;
        const char *name = elf_strptr(object, header.sh_link, symbol.st_name);
        if (!name || !*name)
            continue;
        elf->symbols[elf->symbol_count++] =
            (struct vg_elf_symbol){symbol.st_value, symbol.st_size, name};
        added++;
    }
    return added;
}

/* Aliases of one address: the public spelling first (fewest leading underscores, then the
 * shortest), so that the choice does not depend on the file. */
static int by_address(const void *a, const void *b)
{
    const struct vg_elf_symbol *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if ((x->bytes == 0) != (y->bytes == 0))
        return x->bytes ? -1 : 1;
    size_t x_under = strspn(x->name, "_"), y_under = strspn(y->name, "_");
    if (x_under != y_under)
        return x_under < y_under ? -1 : 1;
    size_t x_length = strlen(x->name), y_length = strlen(y->name);
    if (x_length != y_length)
        return x_length < y_length ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void read_symbols(struct vg_elf *elf)
{
    elf->symbols_read = true;
    if (!add_table(elf, elf->elf, SHT_SYMTAB) && !add_table(elf, elf->debug_elf, SHT_SYMTAB))
        add_table(elf, elf->elf, SHT_DYNSYM);
    if (!elf->symbol_count)
        return;
    qsort(elf->symbols, elf->symbol_count, sizeof(*elf->symbols), by_address);
    size_t kept = 1;
    for (size_t i = 1; i < elf->symbol_count; i++) {
        if (elf->symbols[i].address != elf->symbols[kept - 1].address)
            elf->symbols[kept++] = elf->symbols[i];
    }
    elf->symbol_count = kept;
}

const struct vg_elf_symbol *vg_elf_function(struct vg_elf *elf, uint64_t address)
{
    enum { NESTED_MAX = 4 }; /* symbols inside a function's own range, in hand-written assembly */
    if (!elf->symbols_read)
        read_symbols(elf);
    size_t low = 0, high = elf->symbol_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (elf->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t back = 1; back <= NESTED_MAX && back <= low; back++) {
        const struct vg_elf_symbol *symbol = &elf->symbols[low - back];
        if (symbol->bytes ? address - symbol->address < symbol->bytes : back == 1)
            return symbol;
    }
    return NULL;
}
