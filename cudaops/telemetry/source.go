package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/nvml"
)

// Source reports the state of GPUs.
type Source interface {
	// Name returns the URL without credentials, or nvml://HOST.
	Name() string
	// Scrape reads the source once. An error that wraps ErrUseless means that a retry is pointless.
	Scrape(ctx context.Context) (Page, error)
}

// ErrUseless is wrapped by errors of sources that respond but never report GPUs.
var ErrUseless = errors.New("this source has no GPU metrics")

// DefaultEndpoints are always tried unless a plan disables them.
var DefaultEndpoints = []string{"http://localhost:9400/metrics", "http://localhost:9401/metrics"}

// Normalize returns the URL of an endpoint. It adds http:// and /metrics if they are missing, and removes
// trailing slashes.
func Normalize(endpoint string) (string, error) {
	text := strings.TrimSpace(endpoint)
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}

	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("telemetry endpoint %q: %w", endpoint, err)
	}

	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("telemetry endpoint %q: the scheme is %s; http and https are known", endpoint, u.Scheme)
	}

	if u.Hostname() == "" {
		return "", fmt.Errorf("telemetry endpoint %q names no host; write HOST:PORT", endpoint)
	}

	u.Host, u.Fragment = strings.ToLower(u.Host), ""
	u.Path = strings.TrimRight(u.Path, "/")
	if !strings.HasSuffix(u.Path, "/metrics") {
		u.Path += "/metrics"
	}

	return u.String(), nil
}

// Endpoints normalizes and joins lists of endpoints without duplicates.
func Endpoints(lists ...[]string) ([]string, error) {
	var out []string
	for _, e := range slices.Concat(lists...) {
		u, err := Normalize(e)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, u) {
			out = append(out, u)
		}
	}

	return out, nil
}

// maxPage limits the size of a page in bytes. A node with 16 GPUs and all fields has about 200 kB.
const maxPage = 32 << 20

type exporter struct {
	url    string
	name   string
	set    Set
	client *http.Client
}

// NewExporter returns a source for a DCGM exporter at a normalized URL.
func NewExporter(endpoint string, set Set) (Source, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}

	client := &http.Client{Transport: &http.Transport{
		Proxy:               nil, // metrics are served by the nodes themselves
		DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}}
	return &exporter{url: endpoint, name: u.Redacted(), set: set, client: client}, nil
}

func (e *exporter) Name() string { return e.name }

func (e *exporter) Scrape(ctx context.Context) (Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return Page{}, err
	}

	req.Header.Set("Accept", "text/plain;version=0.0.4, */*;q=0.1")
	res, err := e.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL may contain credentials
		}
		return Page{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, res.Body, 4096)
		return Page{}, fmt.Errorf("HTTP %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}

	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); strings.HasSuffix(kind, "json") ||
		kind == "text/html" {
		return Page{}, fmt.Errorf("it answers with %s, not with Prometheus text: %w", kind, ErrUseless)
	}

	text, err := io.ReadAll(io.LimitReader(res.Body, maxPage+1))
	switch {
	case err != nil:
		return Page{}, fmt.Errorf("%w after %d bytes: %w", errCut, len(text), err)
	case len(text) > maxPage:
		return Page{}, fmt.Errorf("a page of more than %d MiB: %w", maxPage>>20, ErrUseless)
	}

	page := e.set.parse(text)
	if len(page.Readings) == 0 && page.Blanks == 0 {
		if page.Malformed != "" {
			return page, fmt.Errorf("not Prometheus text: %s", page.Malformed)
		}
		return page, fmt.Errorf("no metric of it has a gpu label and a known field: %w", ErrUseless)
	}

	return page, nil
}

// errCut is wrapped by the error of a page that ended early.
var errCut = errors.New("the page was cut")

type local struct {
	api  nvml.API
	host string
	// asking is full while a driver call is running. If the driver hangs, further calls would hang too,
	// each blocking another thread.
	asking chan struct{}
}

// NewNVML returns a source for the GPUs of this machine.
func NewNVML(api nvml.API, host string) Source {
	return &local{api: api, host: host, asking: make(chan struct{}, 1)}
}

func (l *local) Name() string { return "nvml://" + l.host }

func (l *local) Scrape(ctx context.Context) (Page, error) {
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return Page{}, errors.New("the driver has not answered the question before")
	}

	devices, err := l.api.Devices()
	if err != nil {
		return Page{}, err
	}

	var p Page
	for _, d := range devices {
		id := d.Identity()
		r := Reading{GPU: GPU{Index: Index(fmt.Sprint(id.Index)), UUID: id.UUID, Name: id.Name, PCI: id.PCI,
			Device: fmt.Sprintf("nvidia%d", id.Index), Hostname: l.host}, Values: map[string]float64{}}
		readNVML(d, r.Values)
		p.Readings = append(p.Readings, r)
	}

	if len(devices) == 0 {
		return p, fmt.Errorf("NVML sees no GPU: %w", ErrUseless)
	}

	return p, nil
}

// readNVML stores the readings that the device supports.
func readNVML(d nvml.Device, v map[string]float64) {
	if p, err := d.Power(); err == nil {
		if v[Power] = p.Instant; p.Instant == 0 {
			v[Power] = p.Average
		}
		v["nvidia_power_management_limit"] = p.Limit
	}

	if e, err := d.Energy(); err == nil {
		v[Energy] = e
	}

	if u, err := d.Utilization(); err == nil {
		v[Utilization], v["nvidia_memory_utilization"] = u.GPU, u.Memory
	}

	if m, err := d.Memory(); err == nil {
		v[MemoryUsed], v["nvidia_memory_free"], v["nvidia_memory_total"] = float64(m.Used)/1e9, float64(m.Free)/1e9,
			float64(m.Total)/1e9
	}

	if c, err := d.Clocks(); err == nil {
		v[SMClock], v[MemClock] = float64(c.SM), float64(c.Memory)
	}

	if t, err := d.Temperature(); err == nil {
		v[Temperature] = float64(t.GPU)
	}
}
