package loadtest

import (
	"context"
	"net"
)

// Dial connects to the server through an in-memory pipe. It is used as Options.Dial of a run in tests with
// a virtual clock.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go s.Handle(server)
	return client, nil
}
