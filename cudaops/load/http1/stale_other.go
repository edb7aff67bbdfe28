//go:build !linux

package http1

import "net"

func stale(net.Conn) bool { return false }

func unread(net.Conn) bool { return false }
