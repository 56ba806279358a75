/* case_library.c -- a library that allocates; built twice, with another name and another size.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "case.h"

void keep_one(void);
void keep_one(void)
{
    take((size_t)UNITS * 4096);
}
