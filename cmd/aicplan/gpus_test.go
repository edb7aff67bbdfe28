package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGPUs(t *testing.T) {
	t.Parallel()
	page := `DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",modelName="NVIDIA H200",Hostname="n1"} 412
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b",modelName="NVIDIA H200",Hostname="n1"} 79
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",modelName="NVIDIA H200",Hostname="n1"} 9223372036854775794
`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	do := func(args ...string) (int, string, string) {
		for {
			var out, err bytes.Buffer
			code := Main(append([]string{"gpus"}, args...), strings.NewReader(""), &out, &err)
			// A machine that stalls for a second delays the server's answer.
			if !strings.Contains(out.String()+err.String(), "no answer within") {
				return code, out.String(), err.String()
			}
		}
	}
	code, out, _ := do("--json", srv.URL, gone.URL)
	if code != 0 || !strings.Contains(out, `"value": 412`) || !strings.Contains(out, `"unit": "W"`) ||
		!strings.Contains(out, "79") || !strings.Contains(out, "HTTP 404") || strings.Contains(out, "nvidia_memory_used") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out, _ = do(srv.URL); code != 0 || !strings.Contains(out, "412 W") || !strings.Contains(out, "n1") ||
		!strings.Contains(out, "79") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, _, errs := do(gone.URL); code != 1 || !strings.Contains(errs, "No source reports a GPU") {
		t.Errorf("%d\n%s", code, errs)
	}
	if code, _, errs := do("http://"); code != 1 || !strings.Contains(errs, "names no host") {
		t.Errorf("%d %s", code, errs)
	}
}
