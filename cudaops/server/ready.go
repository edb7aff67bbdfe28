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

	"aicplan/sink/base/textutil"
)

// Ready checks when a server is ready for requests.
type Ready struct {
	// URL must return status 200 or 204. If empty, only the port is checked.
	URL string

	// Address is host:port.
	Address string

	// Complete, if not nil, sends a completion request.
	Complete func(ctx context.Context) error

	// Within bounds the wait.
	Within time.Duration

	// Steady is how long a server with a good status page must refuse completions with a *RefusedError
	// before Wait fails. 0 means 10 s. Some servers refuse requests while they are starting.
	Steady time.Duration

	// Waiting, if not nil, is called about every five seconds with what is missing.
	Waiting func(elapsed time.Duration, missing string)
}

const (
	readyPoll   = 250 * time.Millisecond
	askPatience = 5 * time.Second
	tellEvery   = 5 * time.Second
	steady      = 10 * time.Second
)

// RefusedError is a response that means that the request itself is wrong.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the response.
func (e *RefusedError) Unwrap() error { return e.Err }

// NotReadyError is returned if a server ended, refused requests, or was not ready in time.
type NotReadyError struct {
	// Exited is how the server ended, or "" if it is still running.
	Exited string

	// Missing is the reason of the last check.
	Missing string
	After   time.Duration

	// Refused is true if the server is up and refused the completion.
	Refused bool
}

func (e *NotReadyError) Error() string {
	switch e.Exited {
	case "":
	case "exit status 0":
		return "the server ended with exit status 0 before it was ready; the command has to stay in the foreground while " +
			"the server runs"
	default:
		return fmt.Sprintf("the server ended with %s before it was ready", e.Exited)
	}

	if e.Refused {
		return fmt.Sprintf("the server is up and refuses the request, %v after its start: %s",
			e.After.Round(time.Second/10), e.Missing)
	}
	return fmt.Sprintf("the server was not ready after %v: %s", e.After, e.Missing)
}

// Wait waits until the server is ready and returns how long that took. The error is a *NotReadyError or the
// context's.
func (r *Ready) Wait(ctx context.Context, p *Process) (time.Duration, error) {
	began := time.Now()
	deadline := time.NewTimer(r.Within)
	defer deadline.Stop()
	told := began
	missing := ""
	var refusing time.Time // start of continuous refusals, zero if the last check was not refused

	for {
		tried := time.Now()
		asked, cancel := context.WithDeadline(ctx, began.Add(r.Within))
		go func() {
			select {
			case <-p.Done():
				cancel() // cancel the completion of a server that has ended
			case <-asked.Done():
			}
		}()

		err := r.look(asked)
		cut := asked.Err() != nil
		cancel()

		if how := p.Exit(); how != "" {
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
		case <-p.Done():
			return time.Since(began), &NotReadyError{Exited: p.Exit()}
		case <-deadline.C:
			return time.Since(began), &NotReadyError{Missing: missing, After: r.Within}
		case <-ctx.Done():
			return time.Since(began), ctx.Err()
		}
	}
}

// reason returns why a check failed. If the deadline cut the check off soon after its start, it returns the
// reason of the check before.
func reason(before string, err error, cut bool, took time.Duration) string {
	if cut && before != "" && took < askPatience {
		return before
	}
	return err.Error()
}

// look makes one check.
func (r *Ready) look(ctx context.Context) error {
	if r.URL == "" {
		c, err := (&net.Dialer{Timeout: askPatience}).DialContext(ctx, "tcp", r.Address)
		if err != nil {
			return fmt.Errorf("nothing listens at %s", r.Address)
		}
		_ = c.Close() // only checks whether the server listens
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

// health requests the health page.
func (r *Ready) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	status, body, err := ask(ctx, http.MethodGet, r.URL, nil)

	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", r.URL, err)
	case status != http.StatusOK && status != http.StatusNoContent:
		return fmt.Errorf("%s answers %d %s", r.URL, status, textutil.Clip(strings.TrimSpace(string(body)), 200))
	}
	return nil
}

// maxReply limits how much of a response is read, in bytes.
const maxReply = 64 << 10

// ask sends one request on a new connection and returns status and body.
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

// Address returns the address to connect to a server that listens on host. For unspecified addresses, it is
// the loopback address.
func Address(host string, port int) string {
	host = bare(host)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host = "127.0.0.1"; ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// bare removes the brackets around an IPv6 address.
func bare(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
