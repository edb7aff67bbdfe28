package loadtest

import (
	"context"
	"net"
)

// Dial connects to the server without a network: for Options.Dial of a run, in
// tests with a virtual clock.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go s.Handle(server)
	return client, nil
}
