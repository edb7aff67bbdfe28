package server

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/base/textutil"
)

// Profiler controls a server's own profiler, which is started and stopped by HTTP requests and writes one
// trace per rank into a folder.
type Profiler struct {
	// Start and Stop are URLs for POST requests. StartBody is the JSON body of the former; nil means no body.
	Start, Stop string
	StartBody   []byte

	// Dir is the folder of the traces.
	Dir string

	// Within bounds stopping and writing the traces, which takes minutes for large models.
	Within time.Duration

	// Poll is the interval in which the folder is checked. 0 means four times per second.
	Poll time.Duration
}

// Begin starts the profiler.
func (p *Profiler) Begin(ctx context.Context) error {
	return p.post(ctx, p.Start, p.StartBody)
}

// End stops the profiler and returns the new files in Dir once they have stopped growing. before is the
// result of Files before Begin. want is the expected number of traces. If nothing changes for a while, End
// returns fewer.
func (p *Profiler) End(ctx context.Context, before map[string]int64, want int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Within)
	defer cancel()
	if err := p.post(ctx, p.Stop, nil); err != nil {
		return nil, err
	}

	var last map[string]int64
	quiet := 0 // number of checks without a change
	for {
		sizes, err := p.Files()
		if err != nil {
			return nil, err
		}

		traces := 0
		maps.DeleteFunc(sizes, func(name string, _ int64) bool { _, old := before[name]; return old })
		for name, size := range sizes {
			if IsTrace(name) && size > 0 {
				traces++
			}
		}

		if quiet++; !maps.Equal(sizes, last) {
			quiet = 0
		}

		if traces >= want && quiet > 0 || traces > 0 && quiet >= quietPolls {
			return slices.Sorted(maps.Keys(sizes)), nil
		}

		last = sizes
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf(
				"the profiler was stopped, and after %v there are traces of %d of %d ranks in its folder",
				p.Within,
				traces,
				want,
			)
		case <-time.After(cmp.Or(p.Poll, readyPoll)):
		}
	}
}

// quietPolls is the number of checks without a change after which no further traces are expected, about 20
// seconds.
const quietPolls = 80

// IsTrace reports by name whether a file is the trace of a rank. It excludes traces of a server's front
// end, which have no kernels, and SGLang's merged traces of all ranks.
func IsTrace(name string) bool {
	base := filepath.Base(name)
	return (strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".json.gz")) &&
		!strings.Contains(base, "async_llm") && !strings.HasPrefix(base, "merged-")
}

// Files returns the sizes of the files below Dir. It returns none if Dir does not exist.
func (p *Profiler) Files() (map[string]int64, error) {
	out := map[string]int64{}
	err := filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil
		case err != nil:
			return err
		case !d.Type().IsRegular():
			return nil
		}

		if info, err := d.Info(); err == nil { // else it was renamed in the meantime
			out[path] = info.Size()
		}
		return nil
	})

	return out, err
}

func (p *Profiler) post(ctx context.Context, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.Within)
	defer cancel()
	status, reply, err := ask(ctx, http.MethodPost, url, body)

	switch {
	case err != nil:
		return fmt.Errorf("POST %s: %w", url, err)
	case status == http.StatusNotFound:
		return fmt.Errorf(
			"POST %s: the server has no such page; was it started with its profiler (profiler.args of the runtime)?",
			url,
		)
	case status != http.StatusOK:
		return fmt.Errorf("POST %s: %d %s", url, status, textutil.Clip(strings.TrimSpace(string(reply)), 300))
	}

	return nil
}
