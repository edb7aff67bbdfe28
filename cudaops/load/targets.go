package load

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"sync/atomic"

	"aicplan/cudaops/load/aiperf"
)

// TargetsFile is the attachment with the metrics of single URLs and models.
const TargetsFile = "targets.json"

// target is a server and the connections that were opened to it before the run.
type target struct {
	name         string   // as in the plan
	server, url  *url.URL // of the plan, and of requests
	address      string
	proxy        *url.URL // nil without a proxy
	proxyAddress string
	head         []byte // of all requests
	ready        chan net.Conn
	known        atomic.Pointer[responseHead] // of the last response that was parsed

	// kept and closed are true if a connection that was used before had a response, or was closed by the server without
	// one. If it keeps none, none is used again.
	kept, closed atomic.Bool
}

// reused notes what became of a connection that was used before.
func (t *target) reused(err error, answered bool) {
	if answered && !t.kept.Load() {
		t.kept.Store(true)
	}
	if !answered && isClosed(err) {
		t.closed.Store(true)
	}
}

// keeps reports whether the server may keep connections open.
func (t *target) keeps() bool { return t.kept.Load() || !t.closed.Load() }

// targetURLs returns the URLs of the servers as in the plan.
func (s *Settings) targetURLs() []string {
	if len(s.URLs) > 0 {
		return s.URLs
	}
	return []string{s.URL}
}

// checkTargets returns an error if URLs, weights or models are invalid.
func (s *Settings) checkTargets() error {
	if s.given["urls"] && len(s.URLs) == 0 {
		return errors.New("urls is empty; name at least one server, or remove urls and set url")
	}

	for _, text := range s.targetURLs() {
		if _, err := newTarget(s, text); err != nil {
			return err
		}
	}

	for _, name := range slices.Sorted(maps.Keys(s.URLWeights)) {
		if !slices.Contains(s.URLs, name) || !(s.URLWeights[name] > 0) {
			return fmt.Errorf("url_weights has %v for %q; give a number above 0 for a server of urls", s.URLWeights[name], name)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(s.Models)) {
		if name == "" || !(s.Models[name] > 0) {
			return fmt.Errorf("models has %v for %q; give a number above 0 for the name of a model", s.Models[name], name)
		}
	}

	if s.URLWeights != nil && len(s.URLs) == 0 {
		return errors.New("url_weights is set and urls is not")
	}
	return nil
}

// newTarget returns the target of one URL.
func newTarget(s *Settings, text string) (*target, error) {
	u, err := s.Target(text)
	if err != nil {
		return nil, err
	}

	server, err := parseURL(text)
	if err != nil {
		return nil, err
	}

	address, err := Address(u)
	return &target{name: text, server: server, url: u, address: address}, err
}

// A rotation distributes requests by weights, as evenly as possible: with equal weights it is round robin.
type rotation struct{ weights, credit []float64 }

// newRotation returns a rotation over names. Names without a weight have 1.
func newRotation(names []string, weights map[string]float64) *rotation {
	r := &rotation{weights: make([]float64, len(names)), credit: make([]float64, len(names))}
	for i, name := range names {
		r.weights[i] = 1
		if w, ok := weights[name]; ok {
			r.weights[i] = w
		}
	}
	return r
}

// next returns the index of the next name.
func (r *rotation) next() int {
	best, total := 0, 0.0
	for i, w := range r.weights {
		r.credit[i] += w
		total += w
		if r.credit[i] > r.credit[best]+1e-9 {
			best = i
		}
	}
	r.credit[best] -= total
	return best
}

// models returns the names of the models that requests ask for.
func (s *Settings) models() []string {
	if len(s.Models) == 0 {
		return []string{s.Model}
	}
	return slices.Sorted(maps.Keys(s.Models))
}

// groups collects metrics of single URLs and models. It has none if there is one of each.
type groups map[[2]string]*aiperf.Collector

// add adds a record to its groups.
func (g groups) add(s *Settings, rec *aiperf.Record, new func() *aiperf.Collector) {
	for _, key := range [][2]string{{"url", rec.URL}, {"model", rec.Model}} {
		if key[0] == "url" && len(s.URLs) < 2 || key[0] == "model" && len(s.Models) < 2 {
			continue
		}
		if g[key] == nil {
			g[key] = new()
		}
		g[key].Add(rec)
	}
}

// figures returns the columns of each group, by "url" or "model" and name. Rates are relative to the window of all.
func (g groups) figures(all *aiperf.Collector) map[string]map[string]map[string]float64 {
	out := map[string]map[string]map[string]float64{}
	for key, c := range g {
		c.Within(all)
		s := c.Summary()
		figures := s.Columns()
		figures["requests"], figures["failed"] = float64(s.Requests), float64(s.Failed)
		if out[key[0]] == nil {
			out[key[0]] = map[string]map[string]float64{}
		}
		out[key[0]][key[1]] = figures
	}
	return out
}
