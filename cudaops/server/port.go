package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Port returns the port for a server: want, or a free port if want is 0. It returns an error if want is in
// use or not permitted.
func Port(host string, want int) (int, error) {
	if want == 0 {
		return freePort(host)
	}

	switch err := listens(host, want); {
	case err == nil:
		return want, nil
	case !errors.Is(err, syscall.EADDRINUSE):
		return 0, fmt.Errorf("port %d of %s cannot be listened on: %w; give another host or port", want, host, err)
	default:
		return 0, fmt.Errorf(
			"port %d of %s is in use by another program; end it, give another port, or remove port to take a free one",
			want,
			host,
		)
	}
}

// Range of chosen ports. It is below Linux's range for outgoing connections, because a server may start to
// listen a minute after its port was chosen.
const (
	firstPort = 20000
	lastPort  = 32767
	portTries = 200
)

func freePort(host string) (port int, err error) {
	for range portTries {
		port = firstPort + rand.IntN(lastPort-firstPort+1)
		if err = listens(host, port); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}

	if err != nil {
		return 0, fmt.Errorf("no port is free on %s: %w", host, err)
	}
	return port, nil
}

// listens returns an error if a program cannot listen on a port.
func listens(host string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(bare(host), strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
