import './tokens.css';
import './base.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { follow } from './api/live';
import { queries } from './api/queries';
import { router } from './router';
import { SignedOut } from './shell/SignedOut';

const root = document.getElementById('root');
if (!root) throw new Error('the page has no #root');

// Control writes into the page whether somebody is signed in, so that nothing flashes.
const isSignedOut = document.documentElement.dataset.signedIn === 'no';
if (!isSignedOut) follow();

createRoot(root).render(
  <StrictMode>
    {isSignedOut ? (
      <SignedOut />
    ) : (
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    )}
  </StrictMode>,
);
