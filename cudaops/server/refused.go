package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
)

// Wrong reports whether a status of an OpenAI-compatible server means that the request itself is wrong. It
// excludes statuses that a server may return while it is starting or busy. For example, a front end returns
// 404 until its workers have registered.
func Wrong(status int) bool {
	return status >= 400 && status < 500 && !slices.Contains([]int{
		http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked,
		http.StatusFailedDependency,
		http.StatusTooEarly, http.StatusTooManyRequests, statusClosed,
	}, status)
}

// statusClosed is logged by some proxies if the client has closed the connection.
const statusClosed = 499

// Models returns the names of the models that a server lists, or nil if it does not list them.
func Models(ctx context.Context, base string) []string {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	status, body, err := ask(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil || status != http.StatusOK {
		return nil
	}

	var out []string
	for _, id := range gjson.GetBytes(body, "data.#.id").Array() {
		if id.Str != "" {
			out = append(out, id.Str)
		}
	}

	return out
}
