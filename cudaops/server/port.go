package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// A server takes its port when it begins to listen, which may be a minute after it was
// chosen. So it is none of those that the kernel gives to connections and to listeners
// that ask for any, none that was given before, and none that another aicplan on this
// machine has given to a server of its own.
const (
	firstPort = 20000
	portTries = 200
)

// given counts the ports that were given; each process begins somewhere else.
var given atomic.Uint32

func init() { given.Store(rand.Uint32N(1 << 16)) }

func freePort(host string) (int, error) {
	if most := kernelPorts() - firstPort; most >= portTries {
		for range portTries {
			port := firstPort + int(given.Add(1)%uint32(most))
			if !reserved.take(port) {
				continue
			}
			if err := listens(host, port); err == nil {
				return port, nil
			} else if !errors.Is(err, syscall.EADDRINUSE) {
				break
			}
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(bare(host), "0"))
	if err != nil {
		return 0, fmt.Errorf("no port is free on %s: %w", host, err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// reserved are the ports that this process has given.
var reserved reservations

// reservations tell other processes which ports were given: for each there is a socket
// whose name carries the number. It goes with this process, or when so many others
// were given since that its server listens long ago.
type reservations struct {
	mu   sync.Mutex
	held []*net.UnixConn
}

const mostReserved = 64

// take is false where another process has given the port.
func (r *reservations) take(port int) bool {
	c, err := reserve(port)
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE) // or there are no such names here
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held = append(r.held, c); len(r.held) > mostReserved {
		_ = r.held[0].Close() // it has a name and nothing else
		r.held = r.held[1:]
	}
	return true
}

// reserve opens the socket of a port. Names that begin with @ are no files but belong
// to the network namespace, as ports do.
func reserve(port int) (*net.UnixConn, error) {
	return net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: "@aicplan-port-" + strconv.Itoa(port)})
}

// listens says whether one can listen on a port.
func listens(host string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(bare(host), strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// kernelPorts is the first of the ports that the kernel gives away; 0 where it does
// not say so.
func kernelPorts() int {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\t")
	n, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0
	}
	return n
}
