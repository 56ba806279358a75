/* keeper_tool.c -- what the keeper's tests start in the place of `vramguard`.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void sleep_ms(const char *text)
{
    long ms = atol(text);
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0)
        continue;
}

static void copy_lines(FILE *out, const char *label, const char *path, const char *prefix)
{
    char line[512];
    FILE *in = fopen(path, "re");
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        if (strncmp(line, prefix, strlen(prefix)) == 0)
            fprintf(out, "%s %s", label, line);
    }
    if (in != NULL)
        fclose(in);
}

/* One fact a line, the descriptors first: nothing is open yet that was not given. */
static int dump(const char *path, int argc, char **argv)
{
    char text[8192] = "";
    size_t used = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char name[32], target[256] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (fcntl(fd, F_GETFD) < 0 || readlink(name, target, sizeof target - 1) < 0)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "fd %d %s\n", fd, target);
    }
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return 1;
    fputs(text, out);
    for (int i = 0; i < argc; i++)
        fprintf(out, "arg %s\n", argv[i]);
    for (char **e = environ; *e != NULL; e++)
        fprintf(out, "env %s\n", *e);
    copy_lines(out, "oom", "/proc/self/oom_score_adj", "");
    copy_lines(out, "status", "/proc/self/status", "Sig");
    struct sigaction sigchld;
    sigaction(SIGCHLD, NULL, &sigchld);
    fprintf(out, "sigchld %s\n", sigchld.sa_handler == SIG_DFL ? "default" : "other");
    char incident[64] = "";
    if (pread(3, incident, sizeof incident - 1, 0) >= 0)
        fprintf(out, "incident %s\n", incident);
    dprintf(2, "the tool speaks\n");
    return fclose(out) == 0 ? 0 : 1;
}

/* Says who it is, then sleeps: for tests that look whether it is gone. */
static int tell(const char *path, const char *ms)
{
    char other[512];
    snprintf(other, sizeof other, "%s.new", path);
    FILE *out = fopen(other, "we");
    if (out == NULL)
        return 1;
    fprintf(out, "%d %d\n", (int)getpid(), (int)getppid());
    fclose(out);
    rename(other, path);
    sleep_ms(ms);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing";
    if (strcmp(what, "status") == 0)
        return atoi(argv[2]);
    if (strcmp(what, "sleep") == 0)
        sleep_ms(argv[2]);
    if (strcmp(what, "dump") == 0)
        return dump(argv[2], argc, argv);
    if (strcmp(what, "tell") == 0)
        return tell(argv[2], argv[3]);
    if (strcmp(what, "orphan") == 0 && fork() == 0)
        sleep_ms(argv[2]);
    return 0;
}
