// The provider of zitadel/oidc's example server, with nogoo9 as its client and three people. It is a
// confidential client, its issuer ends in a slash, nobody has roles, and its keys are new at each start.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// people are everyone who can sign in, each with their name as password.
type people map[string]*storage.User

func (p people) GetUserByID(id string) *storage.User         { return p[id] }
func (p people) GetUserByUsername(name string) *storage.User { return p[name] }
func (p people) ExampleClientID() string                     { return storage.ServiceUserID }

// registrations is the example's storage, in whose clients nobody can register where to go after
// signing out.
type registrations struct {
	*storage.Storage
	signedOut string
}

func (r registrations) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := r.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return registered{client, r.signedOut}, nil
}

type registered struct {
	op.Client
	signedOut string
}

func (r registered) PostLogoutRedirectURIs() []string { return []string{r.signedOut} }

func main() {
	listen := flag.String("listen", "", "IP:PORT to listen on; the issuer is http://IP:PORT/")
	redirect := flag.String("redirect-url", "", "where people are sent back to after signing in")
	signedOut := flag.String("signed-out-url", "", "where people may go after signing out")
	secretFile := flag.String("client-secret-file", "", "file with the client's secret")
	flag.Parse()

	secret, err := os.ReadFile(*secretFile)
	if err != nil {
		log.Fatal(err)
	}
	storage.RegisterClients(storage.WebClient("nogoo9", strings.TrimSpace(string(secret)), *redirect))
	everyone := people{}
	for _, name := range []string{"alice", "bob", "admin"} {
		everyone[name] = &storage.User{ID: name, Username: name, Password: name, FirstName: name}
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	issuer := fmt.Sprintf("http://%s/", listener.Addr())
	clients := registrations{storage.NewStorage(everyone), *signedOut}
	server := &http.Server{
		Handler:           exampleop.SetupServer(issuer, clients, nil, false),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Printf("serves at %s", issuer)
	log.Fatal(server.Serve(listener))
}
