// The limit of what a load client can reach on a machine, for bench-serving.py:
// a server and a client with one thread each, which only count bytes.
//
//     limit server PORT_FILE TOKENS                     responds at once, until it is terminated
//     limit client PORT CONNECTIONS REQUESTS BODY_BYTES prints requests per second and its CPU seconds

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { buffer = 64 << 10, most = 16384, events = 512 };

struct conn {
	int fd;
	long have, need;  // bytes of the current message, and how many it has; 0 if that is not known yet
	char head[8192];
	int headed;
};

static struct conn *conns[1 << 17];
static char in[buffer], out[4 << 20];
static long out_len;

static void check(long v, const char *what) {
	if (v < 0) {
		perror(what);
		exit(1);
	}
}

static void add(int ep, int fd) {
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
	check(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), "epoll_ctl");
	conns[fd] = calloc(1, sizeof(struct conn));
	conns[fd]->fd = fd;
}

static void drop(int fd) {
	close(fd);
	free(conns[fd]);
	conns[fd] = NULL;
}

static void send_all(int fd, const char *b, long n) {
	while (n > 0) {
		long k = write(fd, b, n);
		if (k < 0) return;  // the peer closed the connection; the next read sees it
		b += k, n -= k;
	}
}

// response fills out with a stream of tokens in OpenAI's format, and body with its size.
static void response(int tokens) {
	char *body = malloc(sizeof out), *p = body;
	for (int i = 0; i < tokens; i++)
		p += sprintf(p, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
			"\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word%d\"},\"finish_reason\":null}]}\n\n", i % 8);
	p += sprintf(p, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
		"\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n");
	p += sprintf(p, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
		"\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n"
		"data: [DONE]\n\n", tokens, 100 + tokens);
	out_len = sprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
		"Transfer-Encoding: chunked\r\n\r\n%lx\r\n%s\r\n0\r\n\r\n", (long)(p - body), body);
	free(body);
}

// request adds n bytes of a request, and responds if it is complete. A client sends one request at a time.
static void request(struct conn *c, long n) {
	if (c->need == 0) {
		long k = n < (long)sizeof c->head - 1 - c->headed ? n : (long)sizeof c->head - 1 - c->headed;
		memcpy(c->head + c->headed, in, k);
		c->head[c->headed += k] = 0;
		char *end = strstr(c->head, "\r\n\r\n");
		c->have += n;
		if (!end) return;
		char *length = strcasestr(c->head, "\r\ncontent-length:");
		c->need = end + 4 - c->head + (length && length < end ? atol(length + 17) : 0);
	} else {
		c->have += n;
	}
	if (c->have < c->need) return;

	static const char none[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
	*strchr(c->head, '\r') = 0;
	if (strstr(c->head, "/completions"))
		send_all(c->fd, out, out_len);
	else
		send_all(c->fd, none, sizeof none - 1);
	c->have = c->need = c->headed = 0;
}

static void server(const char *file, int tokens) {
	response(tokens);
	int l = socket(AF_INET, SOCK_STREAM, 0), ep = epoll_create1(0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	check(bind(l, (void *)&a, size), "bind");
	check(listen(l, 4096), "listen");
	check(getsockname(l, (void *)&a, &size), "getsockname");
	add(ep, l);

	char temporary[4096];
	snprintf(temporary, sizeof temporary, "%s.new", file);
	FILE *f = fopen(temporary, "w");
	if (!f) check(-1, temporary);
	fprintf(f, "127.0.0.1:%d", ntohs(a.sin_port));
	fclose(f);
	check(rename(temporary, file), file);

	struct epoll_event e[events];
	for (;;) {
		int n = epoll_wait(ep, e, events, -1);
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd;
			if (fd == l) {
				if ((fd = accept(l, NULL, NULL)) >= 0) add(ep, fd);
				continue;
			}
			long k = read(fd, in, buffer);
			if (k <= 0)
				drop(fd);
			else
				request(conns[fd], k);
		}
	}
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int client(int port, int connections, long requests, int bytes) {
	char *b = malloc(bytes + 512);
	long length = sprintf(b, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", port, bytes);
	memset(b + length, ' ', bytes);
	length += bytes;

	int ep = epoll_create1(0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fds[most];
	for (int i = 0; i < connections; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		check(connect(fds[i], (void *)&a, sizeof a), "connect");
		add(ep, fds[i]);
	}

	double began = now();
	long sent = 0, done = 0;
	for (; sent < connections && sent < requests; sent++) send_all(fds[sent], b, length);

	struct epoll_event e[events];
	while (done < requests) {
		int n = epoll_wait(ep, e, events, -1);
		for (int i = 0; i < n; i++) {
			long k = read(e[i].data.fd, in, buffer);
			check(k - 1, "the server closed the connection");
			// The end of a chunked response. The server writes it at once, so that no read splits these bytes.
			if (k < 5 || memcmp(in + k - 5, "0\r\n\r\n", 5)) continue;
			done++;
			if (sent < requests) send_all(e[i].data.fd, b, length), sent++;
		}
	}

	double wall = now() - began;
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	printf("%.0f %.6f\n", requests / wall, u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	return 0;
}

int main(int n, char **a) {
	if (n == 4 && !strcmp(a[1], "server")) server(a[2], atoi(a[3]));
	if (n == 6 && !strcmp(a[1], "client")) return client(atoi(a[2]), atoi(a[3]), atol(a[4]), atoi(a[5]));
	fprintf(stderr, "usage: limit server PORT_FILE TOKENS | limit client PORT CONNECTIONS REQUESTS BODY_BYTES\n");
	return 2;
}
