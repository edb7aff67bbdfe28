package loadtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// profile starts or stops the profiler. A stop writes one trace per rank.
func (s *Server) profile(c net.Conn, start bool) bool {
	fail := func(text string) bool {
		return plain(c, 500, "application/json", fmt.Sprintf(`{"error":{"message":%q,"code":500}}`, text))
	}

	if start {
		if s.profiling.Swap(true) {
			return fail("the profiler runs already")
		}
		return plain(c, 200, "text/plain", "")
	}

	if !s.profiling.Swap(false) {
		return fail("the profiler does not run")
	}

	n := s.profiles.Add(1)
	if err := os.MkdirAll(s.opts.ProfileDir, 0o755); err != nil {
		return fail(err.Error())
	}

	for rank, from := range s.opts.ProfileTraces {
		data, err := os.ReadFile(from)
		if err != nil {
			return fail(err.Error())
		}
		end := ".pt.trace.json"
		if strings.HasSuffix(from, ".gz") {
			end += ".gz"
		}
		name := fmt.Sprintf("dp0_pp0_tp%d_rank%d.%d%s", rank, rank, n, end)
		if err := os.WriteFile(filepath.Join(s.opts.ProfileDir, name), data, 0o644); err != nil {
			return fail(err.Error())
		}
	}

	return plain(c, 200, "text/plain", "")
}
