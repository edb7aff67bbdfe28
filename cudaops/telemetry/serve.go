package telemetry

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Handler offers a source as a page like that of a DCGM exporter, for
// Prometheus, AIPerf and others that read one: the same fields, labels and
// units. The source is read at most every minAge, however many ask. With a token,
// requests need the header "Authorization: Bearer TOKEN".
func Handler(src Source, set *Set, minAge time.Duration, token string) http.Handler {
	var mu sync.Mutex
	var page Page
	var err error
	var at time.Time
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, req *http.Request) {
		if token != "" && subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token is needed: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		mu.Lock()
		if at.IsZero() || time.Since(at) >= minAge {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), scrapeDeadline)
			page, err = scrapeOnce(ctx, src)
			cancel()
			at = time.Now()
		}
		p, failed := page, err
		mu.Unlock()
		if failed != nil {
			http.Error(w, failed.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_ = p.write(w, set)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// write prints a page in Prometheus text, in the units of DCGM's fields.
func (p Page) write(w io.Writer, set *Set) error {
	var b strings.Builder
	for _, m := range set.Metrics() {
		open := false
		for _, r := range p.Readings {
			v, ok := r.Values[m.Name]
			if !ok {
				continue
			}
			if !open {
				open = true
				kind := m.Kind
				if kind == Code {
					kind = Gauge
				}
				fmt.Fprintf(&b, "# HELP %s %s%s.\n# TYPE %s %s\n", m.Field, m.Label, fieldUnit(m), m.Field, kind)
			}
			fmt.Fprintf(&b, "%s{%s} %s\n", m.Field, labels(r.GPU), strconv.FormatFloat(v/m.Factor, 'f', -1, 64))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fieldUnit is the unit that DCGM keeps a field in.
func fieldUnit(m Metric) string {
	for _, name := range []string{"W", "mJ", "MiB", "MHz", "%", "C", "ns", "us"} {
		if u := units[name]; u.unit == m.Unit && u.factor == m.Factor {
			return " (in " + name + ")"
		}
	}
	return ""
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func labels(g GPU) string {
	var b strings.Builder
	for _, l := range [][2]string{{"gpu", string(g.Index)}, {"UUID", g.UUID}, {"pci_bus_id", g.PCI}, {"device", g.Device}, {"modelName", g.Name},
		{"GPU_I_PROFILE", g.InstanceProfile}, {"GPU_I_ID", g.InstanceID}, {"hostname", g.Hostname}} {
		if l[1] == "" && l[0] != "gpu" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s="%s"`, l[0], escape.Replace(l[1]))
	}
	return b.String()
}
