package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"aicplan/sink/phrase"
)

// Ready says when a server may be asked.
type Ready struct {
	// URL is asked until it answers 200 or 204; empty waits for the port alone.
	URL string
	// Address is host:port.
	Address string
	// Complete asks for a real completion; nil asks for none.
	Complete func(ctx context.Context) error
	// Within bounds the wait.
	Within time.Duration
	// Steady is how long a server whose page says that it is ready has to refuse a
	// completion as wrong (a *RefusedError) until that is taken for its last word; 0
	// means 10 s. Some refuse what they do not know yet while they start.
	Steady time.Duration
	// Waiting is called about every five seconds with what is missing; nil drops it.
	Waiting func(elapsed time.Duration, missing string)
}

const (
	readyPoll   = 250 * time.Millisecond
	askPatience = 5 * time.Second
	tellEvery   = 5 * time.Second
	steady      = 10 * time.Second
)

// RefusedError is an answer that says that the request itself is wrong.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// NotReadyError is a server that ended, refused, or was not ready in time.
type NotReadyError struct {
	// Exited says how it ended; "" when it still runs.
	Exited string
	// Missing is what it did not do, as of the last try.
	Missing string
	After   time.Duration
	// Refused is true when it has been up and refused the completion.
	Refused bool
}

func (e *NotReadyError) Error() string {
	switch e.Exited {
	case "":
	case "exit status 0":
		return "the server ended with exit status 0 before it was ready; the command has to stay in the foreground while the server runs"
	default:
		return fmt.Sprintf("the server ended with %s before it was ready", e.Exited)
	}
	if e.Refused {
		return fmt.Sprintf("the server is up and refuses the request, %v after its start: %s", e.After.Round(time.Second/10), e.Missing)
	}
	return fmt.Sprintf("the server was not ready after %v: %s", e.After, e.Missing)
}

// Wait waits until the server is ready and returns how long that took. The error
// is a *NotReadyError, or the context's.
func (r *Ready) Wait(ctx context.Context, p *Process) (time.Duration, error) {
	began := time.Now()
	deadline := time.NewTimer(r.Within)
	defer deadline.Stop()
	told := began
	missing := ""
	var refusing time.Time // since when; zero where it does not
	for {
		tried := time.Now()
		asked, cancel := context.WithDeadline(ctx, began.Add(r.Within))
		unhook := make(chan struct{})
		go func() {
			select {
			case <-p.Exited():
				cancel() // a completion of a server that is gone need not be awaited
			case <-unhook:
			}
		}()
		err := r.look(asked)
		cut := asked.Err() != nil
		close(unhook)
		cancel()
		if how := p.Ended(); how != "" {
			return time.Since(began), &NotReadyError{Exited: how}
		}
		if err == nil {
			return time.Since(began), nil
		}
		missing = reason(missing, err, cut, time.Since(tried))
		if _, refused := errors.AsType[*RefusedError](err); !refused || r.URL == "" {
			refusing = time.Time{}
		} else if refusing.IsZero() {
			refusing = tried
		} else if tried.Sub(refusing) >= cmp.Or(r.Steady, steady) {
			return time.Since(began), &NotReadyError{Missing: missing, After: time.Since(began), Refused: true}
		}
		if r.Waiting != nil && time.Since(told) >= tellEvery {
			told = time.Now()
			r.Waiting(time.Since(began), missing)
		}
		select {
		case <-time.After(readyPoll):
		case <-p.Exited():
			return time.Since(began), &NotReadyError{Exited: p.Ended()}
		case <-deadline.C:
			return time.Since(began), &NotReadyError{Missing: missing, After: r.Within}
		case <-ctx.Done():
			return time.Since(began), ctx.Err()
		}
	}
}

// reason is what is missing after a try. One that was cut off by the end of the wait
// soon after it had begun says nothing of the server, and those before it do.
func reason(before string, err error, cut bool, took time.Duration) string {
	if cut && before != "" && took < askPatience {
		return before
	}
	return err.Error()
}

// look tries once.
func (r *Ready) look(ctx context.Context) error {
	if r.URL == "" {
		c, err := (&net.Dialer{Timeout: askPatience}).DialContext(ctx, "tcp", r.Address)
		if err != nil {
			return fmt.Errorf("nothing listens at %s", r.Address)
		}
		_ = c.Close() // it was only tried
	} else if err := r.health(ctx); err != nil {
		return err
	}
	if r.Complete == nil {
		return nil
	}
	if err := r.Complete(ctx); err != nil {
		return fmt.Errorf("a completion: %w", err)
	}
	return nil
}

// health asks the health page.
func (r *Ready) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	status, body, err := ask(ctx, http.MethodGet, r.URL, nil)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", r.URL, err)
	case status != http.StatusOK && status != http.StatusNoContent:
		return fmt.Errorf("%s answers %d %s", r.URL, status, phrase.Clip(strings.TrimSpace(string(body)), 200))
	}
	return nil
}

// maxReply bounds what is read of an answer, in bytes.
const maxReply = 64 << 10

// ask sends one request on a connection of its own.
func ask(ctx context.Context, method, url string, body []byte) (int, []byte, error) {
	var in io.Reader
	if body != nil {
		in = strings.NewReader(string(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return 0, nil, fmt.Errorf("nothing listens at %s", op.Addr)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, nil, errors.New("no answer in time")
		}
		return 0, nil, err
	}
	defer res.Body.Close()
	out, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	return res.StatusCode, out, err
}

// Address is where a server that was told to listen at host is asked: itself for
// all addresses of the machine.
func Address(host string, port int) string {
	host = bare(host)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host = "127.0.0.1"; ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// bare takes the brackets off that an IPv6 address has in a URL.
func bare(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
