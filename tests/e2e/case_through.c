/* case_through.c -- a library whose function calls back: it is on the stack, several frames up.
 * SPDX-License-Identifier: Apache-2.0
 */
int through(int (*function)(void));
int through(int (*function)(void))
{
    return function() + 1;
}
