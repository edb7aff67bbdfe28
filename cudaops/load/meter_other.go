//go:build !linux

package load

import (
	"net"
	"time"
)

func processTime() time.Duration { return 0 }

func peakRSS() float64 { return 0 }

func withArrivals(c net.Conn) net.Conn { return c }
