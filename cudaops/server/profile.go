package server

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/phrase"
)

// Profiler is a server's own profiler: it is started and stopped by its API and
// writes a trace of each rank into a folder.
type Profiler struct {
	// Start and Stop are URLs that are posted to; StartBody and StopBody are the
	// JSON bodies, nil for none.
	Start, Stop         string
	StartBody, StopBody []byte
	// Dir is where traces appear.
	Dir string
	// Within bounds the stop and the writing of the traces: those of a large model
	// take minutes.
	Within time.Duration
	// Poll is how often the folder is looked at; 0: four times a second.
	Poll time.Duration
}

// Begin starts the profiler.
func (p *Profiler) Begin(ctx context.Context) error {
	return p.post(ctx, p.Start, p.StartBody)
}

// End stops the profiler and returns the files that have appeared in Dir since
// before was taken with Files, once they no longer grow. want is how many traces
// of ranks are awaited; fewer are returned when nothing has changed for a while.
func (p *Profiler) End(ctx context.Context, before []string, want int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Within)
	defer cancel()
	if err := p.post(ctx, p.Stop, p.StopBody); err != nil {
		return nil, err
	}
	var last map[string]int64
	quiet := 0 // times that nothing had changed
	for {
		sizes, err := p.sizes(before)
		if err != nil {
			return nil, err
		}
		traces := 0
		for name, size := range sizes {
			if IsTrace(name) && size > 0 {
				traces++
			}
		}
		if quiet++; !same(sizes, last) {
			quiet = 0
		}
		if traces >= want && quiet > 0 || traces > 0 && quiet >= quietPolls {
			var out []string
			for name := range sizes {
				out = append(out, name)
			}
			slices.Sort(out)
			return out, nil
		}
		last = sizes
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the profiler was stopped, and after %v there are traces of %d of %d ranks in its folder", p.Within, traces, want)
		case <-time.After(cmp.Or(p.Poll, readyPoll)):
		}
	}
}

// quietPolls is for how many looks nothing may change before the traces of further
// ranks are no longer awaited: 20 seconds.
const quietPolls = 80

// IsTrace says whether a file is the trace of a rank, by its name: traces of a
// server's front end have no kernels, and SGLang's merged- traces those of all
// ranks.
func IsTrace(name string) bool {
	base := filepath.Base(name)
	return (strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".json.gz")) && !strings.Contains(base, "async_llm") && !strings.HasPrefix(base, "merged-")
}

// Files lists the files below Dir; none where it does not exist yet.
func (p *Profiler) Files() ([]string, error) {
	var out []string
	err := filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil
		case err != nil:
			return err
		case d.Type().IsRegular():
			out = append(out, path)
		}
		return nil
	})
	return out, err
}

// sizes are the new files and how large they are.
func (p *Profiler) sizes(before []string) (map[string]int64, error) {
	all, err := p.Files()
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, name := range all {
		if slices.Contains(before, name) {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			continue // it was renamed meanwhile
		}
		out[name] = info.Size()
	}
	return out, nil
}

func same(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for name, n := range a {
		if m, ok := b[name]; !ok || m != n {
			return false
		}
	}
	return true
}

func (p *Profiler) post(ctx context.Context, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.Within)
	defer cancel()
	status, reply, err := ask(ctx, http.MethodPost, url, body)
	switch {
	case err != nil:
		return fmt.Errorf("POST %s: %w", url, err)
	case status == http.StatusNotFound:
		return fmt.Errorf("POST %s: the server has no such page; was it started with its profiler (profiler.args of the runtime)?", url)
	case status != http.StatusOK:
		return fmt.Errorf("POST %s: %d %s", url, status, phrase.Clip(strings.TrimSpace(string(reply)), 300))
	}
	return nil
}
