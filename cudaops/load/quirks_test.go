package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/load/aiperf"
)

// rawServer serves requests with handwritten responses. n counts the server's requests from 0. If answer
// returns false, the connection is closed.
func rawServer(t *testing.T, network, address string, answer func(c net.Conn, n int) bool) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err) // the machine has no IPv6
	}
	t.Cleanup(func() { _ = l.Close() })
	requests := make(chan int, 1)
	requests <- 0
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil {
						return
					}
					if req.Method != http.MethodPost || !strings.Contains(req.URL.Path, "completions") {
						fmt.Fprint(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
						continue
					}
					n := <-requests
					requests <- n + 1
					if !answer(c, n) {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

const streamBody = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" +
	"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\u00e9\"}}]}\n\n" +
	"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \U0001F600\"},\"finish_reason\":\"length\"}]}\n\n" +
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n" +
	"data: [DONE]\n\n"

func withLength(extra, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", extra,
		len(body), body)
}

// chunked encodes text as chunks. If whole is false, the last chunk is missing.
func chunked(text string, whole bool) string {
	out := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	for part := range strings.SplitAfterSeq(text, "\n\n") {
		if part != "" {
			out += fmt.Sprintf("%x ;name=\"va;lue\"\r\n%s\r\n", len(part), part)
		}
	}
	if whole {
		out += "0\r\nX-Trailer: 1\r\n\r\n"
	}
	return out
}

func answerOf(kind, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body)
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for part := range strings.SplitAfterSeq(text, "\n\n") { // servers flush after each message
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func delta(text string) string {
	return `data: {"choices":[{"index":0,"delta":` + text + "}]}\n\n"
}

// TestQuirksOfServers responds to all requests like certain real servers and proxies. failed is the kind
// and text of the expected error. If it is empty, all requests must succeed.
func TestQuirksOfServers(t *testing.T) {
	t.Parallel()
	const done = "data: [DONE]\n\n"
	compressed := gzipped(t, streamBody)
	for _, q := range []struct {
		name, answer string
		close        bool
		kind, failed string
		code         int
	}{
		{name: "plain", answer: withLength("", streamBody)},
		{name: "chunk extensions and trailers", answer: chunked(streamBody, true)},
		{name: "interim answers", answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" +
			withLength("", streamBody)},
		{name: "gzip without a request for it", answer: withLength("Content-Encoding: gzip\r\n", compressed)},
		{name: "gzip cut short", answer: withLength("Content-Encoding: gzip\r\n", compressed[:len(compressed)-20]),
			kind: aiperf.TypeStream, failed: "the connection ended inside the response"},
		{name: "no gzip at all", answer: withLength("Content-Encoding: gzip\r\n", streamBody), kind: aiperf.TypeProtocol,
			failed: "is no gzip"},
		{name: "brotli", answer: withLength("Content-Encoding: br\r\n", "\x0b\x02\x80data\x03"), kind: aiperf.TypeProtocol,
			failed: `encoded as "br"`},
		{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + streamBody, close: true},
		{name: "a head cut short", answer: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n", close: true,
			kind: aiperf.TypeConnection, failed: "ended inside the head"},
		{name: "another protocol", answer: "SSH-2.0-OpenSSH_9.2\r\n", kind: aiperf.TypeProtocol, failed: "malformed HTTP"},
		{name: "no media type", answer: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(streamBody),
			streamBody)},
		{name: "a stream as text/plain", answer: answerOf("text/plain; charset=utf-8", streamBody)},
		{name: "a stream as application/json", answer: answerOf("application/json", streamBody)},
		{name: "an error page as a stream", answer: answerOf("text/event-stream",
			"{\"error\":\n {\"message\":\"out of memory\",\"code\":507}}\n"), kind: aiperf.TypeServer, code: 507,
			failed: "out of memory"},
		{name: "a text as a stream", answer: answerOf("text/event-stream", "upstream timed out"), kind: aiperf.TypeStream,
			failed: `it begins with "upstream timed out"`},
		{name: "an error page as text/plain", answer: answerOf("text/plain", "upstream timed out"), kind: aiperf.TypeEmpty,
			failed: "upstream timed out"},
		{name: "no stream though asked", answer: answerOf("application/json", `{"choices":[{"message":{"content":"hi"}}]}`)},
		{name: "an error as JSON", answer: answerOf("application/json", `{"error":{"message":"bad","code":400}}`),
			kind: aiperf.TypeServer, code: 400, failed: "bad"},
		{name: "other JSON", answer: answerOf("application/json", `{"detail":"no way"}`), kind: aiperf.TypeEmpty,
			failed: "no way"},
		{name: "an error as an event", answer: withLength("", "event: error\ndata: overloaded\n\n"+done),
			kind: aiperf.TypeServer, failed: "overloaded"},
		{name: "an error as an event with JSON",
			answer: withLength("", delta(`{"content":"a"}`)+"event: error\ndata: {\"message\":\"gone\",\"type\":\"x\"}\n\n"+
				done), kind: aiperf.TypeServer, failed: "x: gone"},
		{name: "vLLM's old error", answer: withLength("",
			"data: {\"object\":\"error\",\"message\":\"m\",\"code\":400}\n\n"+
				done), kind: aiperf.TypeServer, code: 400, failed: "m"},
		{name: "an answer that was broken off",
			answer: withLength("", `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"abort"}]}`+"\n\n"+
				done), kind: aiperf.TypeServer, failed: `finish_reason is "abort"`},
		{name: "a redirect", answer: "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://other/v1\r\nContent-Length: " +
			"0\r\n\r\n", kind: "Temporary Redirect", code: 307, failed: "redirected to http://other/v1; give the final URL"},
		{name: "too many requests", answer: "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: " +
			"4\r\n\r\nslow", kind: "Too Many Requests", code: 429, failed: "slow (the server asks to wait 7 s)"},
		{name: "no content", answer: "HTTP/1.1 204 No Content\r\n\r\n", kind: "No Content", code: 204,
			failed: "the answer has no body"},
		{name: "tool calls", answer: withLength("",
			delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}`)+
				delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`)+done)},
		{name: "a refusal", answer: withLength("", delta(`{"refusal":"I cannot"}`)+done)},
		{name: "a line of a megabyte", answer: withLength("", delta(`{"content":"`+strings.Repeat("x", 1<<20)+`"}`)+done)},
		{name: "a blank behind DONE", answer: withLength("", strings.Replace(streamBody, "[DONE]", "[DONE] ", 1))},
		{name: "half a surrogate and NUL", answer: withLength("", delta(`{"content":"\u0000\ud800"}`)+done)},
		{name: "bytes that are no UTF-8", answer: withLength("", delta("{\"content\":\"\xff\xfe\"}")+done)},
		{name: "empty messages only", answer: withLength("", delta(`{"content":""}`)+delta(`{}`)+done),
			kind: aiperf.TypeEmpty, failed: "no output of the model"},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			for _, network := range []string{"tcp4 127.0.0.1:0", "tcp6 [::1]:0"} {
				kind, address, _ := strings.Cut(network, " ")
				if kind == "tcp6" && q.name != "plain" {
					continue
				}
				addr := rawServer(t, kind, address, func(c net.Conn, _ int) bool {
					_, err := io.WriteString(c, q.answer)
					return err == nil && !q.close
				})
				s := quick()
				s.URL, s.Concurrency, s.Requests, s.Timeout, s.CacheReset = addr, 2, 6, 10, ResetNever
				res, err := Run(t.Context(), s, Options{})
				if err != nil {
					t.Fatal(err)
				}
				sum := res.Profiling.Summary
				if q.failed == "" {
					if sum.Succeeded != 6 {
						t.Errorf("%d succeeded: %+v", sum.Succeeded, sum.Errors)
					}
					continue
				}
				if sum.Failed != 6 || len(sum.Errors) != 1 {
					t.Fatalf("%d failed: %+v", sum.Failed, sum.Errors)
				}
				if e := sum.Errors[0]; e.Type != q.kind || e.Code != q.code || !strings.Contains(e.Message, q.failed) {
					t.Errorf("%+v, want %d %s with %q", e, q.code, q.kind, q.failed)
				}
			}
		})
	}
}

// TestHeadsOnOneConnection sends the same head several times, with other heads in between.
func TestHeadsOnOneConnection(t *testing.T) {
	t.Parallel()
	ok := chunked(streamBody, true)
	busy := strings.Replace(chunked("later", true), "200 OK", "503 Service Unavailable", 1)
	addr := rawServer(t, "tcp", "127.0.0.1:0", func(c net.Conn, n int) bool {
		_, err := io.WriteString(c, []string{ok, ok, busy, busy, withLength("", streamBody)}[n%5])
		return err == nil
	})
	s := quick()
	s.URL, s.Concurrency, s.Requests, s.CacheReset = addr, 1, 20, ResetNever
	var codes []int
	var reused []bool
	_, err := Run(t.Context(), s, Options{Record: func(r *aiperf.Record) {
		code := http.StatusOK
		if r.Err != nil {
			code = r.Err.Code
		}
		codes, reused = append(codes, code), append(reused, r.Reused)
	}})
	if want := slices.Repeat([]int{200, 200, 503, 503, 200}, 4); err != nil || !slices.Equal(codes, want) {
		t.Errorf("%v: %v, want %v", err, codes, want)
	}
	if slices.Contains(reused[1:], false) {
		t.Errorf("a connection was not reused: %v", reused)
	}
}

// TestRequestIsNotRetried uses a server that reads a request and closes the connection without a response.
func TestRequestIsNotRetried(t *testing.T) {
	t.Parallel()
	addr := rawServer(t, "tcp", "127.0.0.1:0", func(c net.Conn, n int) bool {
		if n%2 == 1 {
			return false // the request has been read
		}
		_, err := io.WriteString(c, withLength("", streamBody))
		return err == nil
	})
	s := quick()
	s.URL, s.Concurrency, s.Requests, s.CacheReset = addr, 1, 8, ResetNever
	res, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if sum := res.Profiling.Summary; sum.Failed != 4 || sum.Succeeded != 4 {
		t.Errorf("%d failed, %d succeeded: %+v", sum.Failed, sum.Succeeded, sum.Errors)
	}
}

// TestServerKeepsNoConnection uses a server that closes each connection after its response, which it does not announce.
func TestServerKeepsNoConnection(t *testing.T) {
	t.Parallel()
	addr := rawServer(t, "tcp", "127.0.0.1:0", func(c net.Conn, _ int) bool {
		_, _ = io.WriteString(c, chunked(streamBody, true)) // the client reports write errors
		return false
	})
	s := quick()
	s.URL, s.Concurrency, s.Requests, s.CacheReset = addr, 2, 40, ResetNever
	res, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if sum := res.Profiling.Summary; sum.Failed > 2 {
		t.Errorf("%d of %d requests failed: %+v", sum.Failed, sum.Requests, sum.Errors)
	}
}

// TestPrivateAuthority uses a TLS server whose certificate is only trusted by ca_file, and checks the error
// message without ca_file.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, streamBody) // the client reports write errors
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
		0o644); err != nil {
		t.Fatal(err)
	}
	s := quick()
	s.URL, s.Concurrency, s.Requests, s.CacheReset, s.CAFile = srv.URL, 2, 6, ResetNever, file
	res, err := Run(t.Context(), s, Options{})
	if err != nil || res.Profiling.Summary.Succeeded != 6 {
		t.Fatalf("%v: %+v", err, res)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, []byte("no certificate"), 0o644); err != nil {
		t.Fatal(err)
	}
	bare := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bare.Close)
	for _, c := range []struct{ url, file, want string }{
		{srv.URL, "", "ca_file names the file"},
		{srv.URL, key, "no certificate in PEM form"},
		{srv.URL, filepath.Join(t.TempDir(), "none"), "no such file"},
		{"http://127.0.0.1:1", file, "no https URL"},
		{strings.Replace(bare.URL, "http:", "https:", 1), file, "an http:// URL"},
	} {
		s.URL, s.CAFile = c.url, c.file
		if _, err := Run(t.Context(), s, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q gave %v, want %q", c.url, filepath.Base(c.file), err, c.want)
		}
	}
}
