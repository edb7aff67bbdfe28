package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
)

// Wrong says whether a status of an OpenAI-compatible server means that the request
// itself is wrong. Not those that a server may answer while it starts or is busy; a
// frontend whose workers have not registered answers 404.
func Wrong(status int) bool {
	return status >= 400 && status < 500 && !slices.Contains([]int{
		http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusFailedDependency,
		http.StatusTooEarly, http.StatusTooManyRequests, statusClosed,
	}, status)
}

// statusClosed is what some proxies write down for a client that went away.
const statusClosed = 499

// Models are the names of the models that a server says it serves; nil where it does
// not say.
func Models(ctx context.Context, base string) []string {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	status, body, err := ask(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil || status != http.StatusOK {
		return nil
	}
	var list struct{ Data []struct{ ID string } }
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	var out []string
	for _, m := range list.Data {
		if m.ID != "" {
			out = append(out, m.ID)
		}
	}
	return out
}
