/*
 * Preloaded into a worker, lets its connections to loopback come from the address in LAB_SOURCE, so that the
 * broker sees one host for each pod. (The Go worker, which calls no C library, does so by itself.)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void bind_v4(int socket, const struct sockaddr_in *to, struct in_addr from) {
    if ((ntohl(to->sin_addr.s_addr) >> 24) == 127) {
        struct sockaddr_in mine = {.sin_family = AF_INET, .sin_addr = from};
        bind(socket, (struct sockaddr *)&mine, sizeof mine);
    }
}

static void bind_mapped(int socket, const struct sockaddr_in6 *to, struct in_addr from) {
    if (IN6_IS_ADDR_V4MAPPED(&to->sin6_addr) && to->sin6_addr.s6_addr[12] == 127) {
        struct sockaddr_in6 mine = {.sin6_family = AF_INET6, .sin6_addr = to->sin6_addr};
        memcpy(&mine.sin6_addr.s6_addr[12], &from, sizeof from);
        bind(socket, (struct sockaddr *)&mine, sizeof mine);
    }
}

int connect(int socket, const struct sockaddr *to, socklen_t length) {
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    const char *source = getenv("LAB_SOURCE");
    struct in_addr from;
    if (to != NULL && source != NULL && inet_pton(AF_INET, source, &from) == 1) {
        /* A socket that is bound already stays as it is: the second bind fails. */
        if (to->sa_family == AF_INET) {
            bind_v4(socket, (const struct sockaddr_in *)to, from);
        } else if (to->sa_family == AF_INET6) {
            bind_mapped(socket, (const struct sockaddr_in6 *)to, from);
        }
    }
    return next(socket, to, length);
}
