"""The engine that keeps things alive: OTP supervision on trio, and the processes it spans. It knows nothing of A2A.

(`volcanic.supervisor`, singular, is the program's entry point; this package, plural, is what it stands on.)
"""
