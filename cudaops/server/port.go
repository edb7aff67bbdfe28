package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Port returns the port that a server is to listen on: want, or a free one for 0.
// The error says that want is in use, or cannot be had.
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
		return 0, fmt.Errorf("port %d of %s is in use by another program; end it, give another port, or leave port away to take a free one", want, host)
	}
}

// A server may begin to listen a minute after its port was chosen. Chosen ports lie
// below the range from which Linux takes the ports of outgoing connections.
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

// listens checks that a program can listen on a port.
func listens(host string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(bare(host), strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
