package live

import (
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"aicplan/engine/checkpoint"
)

//go:embed assets
var assets embed.FS

var livePage = template.Must(template.ParseFS(assets, "assets/live.html"))

// Server is the live page: runs of a state folder, one of them in full, finished
// reports. It reads; nothing in the state folder changes.
type Server struct {
	// Runs lists the runs, oldest first.
	Runs func() ([]checkpoint.Run, error)
	// Dead reports whether the process of a run without an end is known to have
	// exited. It is nil if that cannot be known.
	Dead func(host string, pid int) bool
	// Report writes the report of a finished run as HTML.
	Report func(id string) ([]byte, error)
	// Token is required from readers. If it is empty, every reader that reaches the address
	// is served.
	Token string
	// Interval is the time between two polls of a run that has readers.
	Interval time.Duration

	mu     sync.Mutex
	ended  map[string]RunLine
	making chan struct{} // held while a report is made
	stopCh chan struct{}
}

// Handler returns the pages.
func (s *Server) Handler() http.Handler {
	s.stopCh, s.making = make(chan struct{}), make(chan struct{}, 1)
	if s.Interval == 0 {
		s.Interval = time.Second
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /runs/{id}", s.page)
	for _, name := range []string{"live.js", "live.css"} {
		mux.HandleFunc("GET /assets/"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, assets, "assets/"+name)
		})
	}
	mux.HandleFunc("GET /api/runs", s.runs)
	mux.HandleFunc("GET /api/runs/{id}", s.run)
	mux.HandleFunc("GET /api/runs/{id}/stream", s.stream)
	mux.HandleFunc("GET /runs/{id}/report", s.report)

	return s.guard(mux)
}

// Close ends the streams, so that a server can shut down.
func (s *Server) Close() { close(s.stopCh) }

const tokenCookie = "aicplan_token"

// guard sets headers, and asks for the token. A token in the address becomes a
// cookie at once, so that it stays in no address bar, log or Referer.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
			"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")

		if s.Token == "" && !local(r.Host) {
			// A page of a stranger may make a name point here.
			http.Error(w, "This page is for this machine: ask for localhost or its address.", http.StatusForbidden)
			return
		}

		if s.Token != "" && !s.allowed(r) {
			if s.isToken(r.URL.Query().Get("token")) {
				http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: s.Token, Path: "/", HttpOnly: true,
					SameSite: http.SameSiteStrictMode})
				http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
				return
			}
			http.Error(w, "This page needs its token: open the address that aicplan serve printed, or send Authorization: "+
				"Bearer TOKEN.", http.StatusUnauthorized)
			return
		}

		next.ServeHTTP(w, r)
	})
}

// local reports whether the host of a request is an address of this machine or localhost.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}

func (s *Server) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(s.Token)) == 1
}

func (s *Server) allowed(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && s.isToken(bearer) {
		return true
	}
	c, err := r.Cookie(tokenCookie)
	return err == nil && s.isToken(c.Value)
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = livePage.Execute(w, map[string]string{"Run": r.PathValue("id")})
}

func (s *Server) runs(w http.ResponseWriter, _ *http.Request) {
	all, err := s.Runs()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, s.lines(all, time.Now()))
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// find returns the run of a request; "latest" is the newest. If there is none, it answers the request and
// returns nil.
func (s *Server) find(w http.ResponseWriter, r *http.Request) *checkpoint.Run {
	all, err := s.Runs()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil
	}

	id := r.PathValue("id")
	for i, run := range slices.Backward(all) {
		if run.ID == id || id == "latest" {
			return &all[i]
		}
	}

	http.Error(w, "there is no such run", http.StatusNotFound)
	return nil
}

func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	found := s.find(w, r)
	if found == nil {
		return
	}

	f := Follow(*found, s.Dead)
	if err := f.Poll(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}

	writeJSON(w, f.State)
}

// stream sends the state of a run whenever it changed, as server-sent events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	found := s.find(w, r)
	if found == nil {
		return
	}

	w.Header().Set("Content-Type", "text/event-stream")
	send := func(format string, args ...any) bool {
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && http.NewResponseController(w).Flush() == nil
	}
	if !send("retry: 2000\n\n") {
		return
	}

	poll, keep := time.NewTicker(s.Interval), time.NewTicker(15*time.Second)
	defer poll.Stop()
	defer keep.Stop()

	f, sent := Follow(*found, s.Dead), -1
	for {
		err := f.Poll()
		var text []byte
		if err == nil && f.State.Version != sent {
			sent = f.State.Version
			text, err = json.Marshal(f.State)
		}
		if err != nil {
			send("event: trouble\ndata: %s\n\n", strings.ReplaceAll(err.Error(), "\n", " "))
			return
		}
		if text != nil && !send("data: %s\n\n", text) {
			return
		}

		select {
		case <-poll.C:
		case <-keep.C:
			if !send(": still here\n\n") {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.stopCh:
			return
		}
	}
}

// report shows a finished run's report, which has its own style and script.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	found := s.find(w, r)
	if found == nil {
		return
	}

	// A report of many rows takes much memory: one at a time.
	select {
	case s.making <- struct{}{}:
	case <-r.Context().Done():
		return
	}

	b, err := func() ([]byte, error) {
		defer func() { <-s.making }()
		return s.Report(found.ID)
	}()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}

	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors "+
			"'none'; base-uri 'none'; form-action 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b)
}
