// Command echo is what smoke.sh runs in pods. GET / names the pod; POST /unready fails its probe and
// POST /ready mends it; with DATA it appends the pod's name to DATA/starts, and GET /starts returns
// that file; GET /resolve?name=N returns N's addresses. CRASH=TEXT prints the text and ends at once.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

func main() {
	if text := os.Getenv("CRASH"); text != "" {
		fmt.Println(text)
		os.Exit(3)
	}
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	if folder := os.Getenv("DATA"); folder != "" {
		file := filepath.Join(folder, "starts")
		if err := appendLine(file, name); err != nil {
			log.Fatal(err)
		}
		http.HandleFunc("GET /starts", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	}
	http.HandleFunc("GET /resolve", func(w http.ResponseWriter, r *http.Request) {
		addresses, err := net.DefaultResolver.LookupHost(r.Context(), r.FormValue("name"))
		var lookup *net.DNSError
		switch {
		case errors.As(err, &lookup) && lookup.IsNotFound:
			fmt.Fprintln(w, "no such host")
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadGateway)
		default:
			fmt.Fprintln(w, strings.Join(addresses, " "))
		}
	})
	var unready atomic.Bool
	http.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if unready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("POST /unready", func(http.ResponseWriter, *http.Request) { unready.Store(true) })
	http.HandleFunc("POST /ready", func(http.ResponseWriter, *http.Request) { unready.Store(false) })

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() { log.Fatal(http.ListenAndServe(":8080", nil)) }()
	<-stop
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return cmp.Or(err, f.Close())
}
