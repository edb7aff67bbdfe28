package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/sink/base/fileutil"
	"aicplan/stages/report"
	"aicplan/stages/report/live"
)

type serveCmd struct {
	Listen    string `help:"Address: HOST:PORT or :PORT (this machine only)." default:":8765" placeholder:"ADDRESS"`
	TokenFile string `help:"File with the token of readers; default: a generated one." placeholder:"FILE" type:"path"`
}

// Help is printed below the summary.
func (serveCmd) Help() string {
	return `The page shows runs of the state folder as they go: stages, progress, rates,
samples, failures; and the reports of those that ended. It only reads. Exit code 0
when a signal ends it.

Examples:
  aicplan serve
  aicplan --state-dir /shared/state serve --listen 0.0.0.0:8765`
}

// Run serves the live page until it is interrupted.
func (c *serveCmd) Run(a *app, store *checkpoint.Store) error {
	host, port, token, err := listenAddress(c.Listen, c.TokenFile)
	if err == nil {
		err = store.Created()
	}
	if err != nil {
		return err
	}

	// Other users of this machine reach a loopback address as well.
	if token == "" {
		raw := make([]byte, 16)
		if _, err := rand.Read(raw); err != nil {
			return err
		}
		token = hex.EncodeToString(raw)
	}

	ln, err := listen(net.JoinHostPort(host, port))
	if err != nil {
		return err
	}

	a.endPlanning() // a signal ends this command with exit code 0
	ctx, stop := untilSignal()
	defer stop()
	page := &live.Server{Runs: store.Runs, Dead: store.Abandoned, Token: token, Report: func(id string) ([]byte, error) {
		r, err := (&reportCmd{Run_: id}).report(a, store)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err = report.Write(&b, "html", r)
		return b.Bytes(), err
	}}

	srv := &http.Server{Handler: page.Handler(), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 16}
	go func() {
		<-ctx.Done()
		page.Close()
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(closing)
		_ = srv.Close()
	}()

	address := "http://" + ln.Addr().String() + "/"
	if c.TokenFile == "" {
		address += "?token=" + token
	}

	fmt.Fprintf(a.stdout, "Serving %s\nCtrl-C ends it.\n", address)
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}

	return nil
}

// listen opens the address of --listen.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another HOST:PORT with --listen", address, err)
	}
	return l, nil
}

// listenAddress splits an address, with this machine as the default host, and reads the token file.
func listenAddress(listen, tokenFile string) (host, port, token string, err error) {
	if host, port, err = net.SplitHostPort(listen); err != nil {
		return "", "", "", fmt.Errorf("--listen: %w; write :PORT or HOST:PORT", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}

	if tokenFile != "" {
		b, err := fileutil.ReadFile(tokenFile)
		if err != nil {
			return "", "", "", err
		}
		if token = strings.TrimSpace(string(b)); token == "" {
			return "", "", "", fmt.Errorf("%s contains no token", tokenFile)
		}
	}

	return host, port, token, nil
}
